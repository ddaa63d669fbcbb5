from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import AddFile, DeletionVectorDescriptor
from engine.operations.maintenance.optimize import BinRule, batches, digest, pack


def _add(path, size, partition=None, deleted=0, rows=100):
    vector = DeletionVectorDescriptor("i", path, 10, deleted) if deleted else None
    return AddFile(
        path=path,
        partition_values={"p": partition} if partition else {},
        size=size,
        modification_time=0,
        data_change=True,
        stats=f'{{"numRecords":{rows}}}',
        deletion_vector=vector,
    )


def test_small_files_of_one_partition_are_joined():
    files = [_add("a", 10, "x"), _add("b", 10, "y"), _add("c", 10, "x")]
    assert [[add.path for add in bin_] for bin_ in pack(files, BinRule(100))] == [["a", "c"]]


def test_files_in_a_bin_keep_the_order_of_the_log():
    files = [_add("big", 50), _add("small", 10), _add("middle", 30)]
    assert [add.path for add in pack(files, BinRule(100))[0]] == ["big", "small", "middle"]


def test_a_file_alone_is_rewritten_only_for_its_deleted_rows():
    assert pack([_add("a", 10)], BinRule(100)) == []
    assert pack([_add("a", 10, deleted=5)], BinRule(100)) == []
    assert len(pack([_add("a", 1000, deleted=6)], BinRule(100))) == 1


def test_purging_rewrites_every_file_with_deleted_rows_and_no_other():
    files = [_add("a", 10, deleted=1), _add("b", 10), _add("c", 1000, deleted=1)]
    bins = pack(files, BinRule(100, purge=True))
    assert sorted(add.path for bin_ in bins for add in bin_) == ["a", "c"]


@given(st.lists(st.integers(1, 120), max_size=40), st.integers(10, 200))
def test_files_written_by_one_run_are_not_joined_by_a_later_one(sizes, target):
    files = [_add(str(i), size) for i, size in enumerate(sizes)]
    bins = pack(files, BinRule(target))
    joined = {add.path for bin_ in bins for add in bin_}
    left = [add for add in files if add.path not in joined]
    left += [_add(f"new{i}", sum(add.size for add in bin_)) for i, bin_ in enumerate(bins)]
    assert pack(left, BinRule(target)) == []
    assert all(sum(add.size for add in bin_) <= target for bin_ in bins)


def test_batches_hold_about_the_size_and_lose_nothing():
    bins = [(_add(str(i), 40),) for i in range(5)]
    groups = list(batches(bins, 100))
    assert [len(group) for group in groups] == [2, 2, 1]


def test_the_digest_does_not_depend_on_the_order_of_sources():
    one, two = (_add("a", 1),), (_add("b", 1),)
    assert digest([one, two]) == digest([two, one]) != digest([one])
