"""Row maps: trusted only if they are proved."""

from collections.abc import Sequence

import msgspec
import pytest
from pyroaring import BitMap64

from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile
from engine.conflicts.decide.rebase import build_remove, refresh_transaction, restore_identity
from engine.conflicts.decide.row_map import trace
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.sample_table import SampleTable, TableSetting
from tests.engine.conflicts.overlaps import add, current, remove, vector, winner


def _sample_table(*, row_tracking: bool = False) -> SampleTable:
    return SampleTable(TableSetting(IsolationLevel.SERIALIZABLE, True, row_tracking=row_tracking))


def _trace(
    sample_table: SampleTable, offsets: tuple[int, int], counts: tuple[int, int] = (4, 4), **more
):
    removes = [
        msgspec.structs.replace(
            build_remove(file),
            tags=CompactionInfo(target="new", offset=offset, row_count=count).tags(),
        )
        for file, offset, count in zip(sample_table.files, offsets, counts, strict=True)
    ]
    rows = sample_table.rows["d1"] + sample_table.rows["d2"]
    target = sample_table.file(
        "new", more.get("rows", rows), origins=more.get("origins", list(range(8)))
    )
    return trace(removes, [target], sample_table)


def test_sources_that_tile_their_target_are_traced():
    traced = _trace(_sample_table(), (0, 4))
    assert traced.carry("d1", BitMap64([0, 3])) == {"new": BitMap64([0, 3])}
    assert traced.carry("d2", BitMap64([0, 3])) == {"new": BitMap64([4, 7])}


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [((0, 3), (4, 4)), ((0, 5), (4, 4)), ((0, 0), (4, 4)), ((1, 5), (4, 4)), ((0, 5), (5, 3))],
)
def test_sources_that_do_not_fill_their_target_are_not_traced(
    offsets: tuple[int, int], counts: tuple[int, int]
):
    traced = _trace(_sample_table(), offsets, counts)
    assert not traced.targets
    assert traced.carry("d1", BitMap64([0])) is None


@pytest.mark.parametrize(("deleted", "trusted"), [(range(4), True), (range(3), False), ((), False)])
@pytest.mark.parametrize(("kept", "offset"), [(1, 4), (0, 0)])
def test_a_source_may_be_missing_where_the_target_deletes_its_rows(
    deleted: Sequence[int], trusted: bool, kept: int, offset: int
):
    """Another compaction removed the source first, so that nothing of it is live."""
    sample_table = _sample_table()
    source = sample_table.files[kept]
    info = CompactionInfo(target="new", offset=offset, row_count=4)
    remove = msgspec.structs.replace(build_remove(source), tags=info.tags())
    target = sample_table.file("new", sample_table.rows["d1"] + sample_table.rows["d2"])
    gone = BitMap64((4 - offset) + row for row in deleted)
    traced = trace([remove], [sample_table.mask_rows(target, gone, "rest")], sample_table)
    assert bool(traced.targets) is trusted
    rows = {"new": BitMap64([offset + 1])} if trusted else None
    assert traced.carry(source.path, BitMap64([1])) == rows


def test_a_target_with_rows_of_its_own_is_not_traced():
    sample_table = _sample_table()
    rows = [*sample_table.rows["d1"], *sample_table.rows["d2"], (9, "d1")]
    assert not _trace(sample_table, (0, 4), rows=rows, origins=[*range(8), 8]).targets


def test_row_ids_trace_rows_that_tags_do_not():
    sample_table = _sample_table(row_tracking=True)
    rows = [*sample_table.rows["d2"], *sample_table.rows["d1"]]
    removes = [build_remove(file) for file in sample_table.files]
    target = sample_table.file("new", rows, origins=[7, 6, 5, 4, 3, 2, 1, 0])
    traced = trace(removes, [target], sample_table)
    assert traced.how == "row ids"
    assert traced.carry("d1", BitMap64([0, 1])) == {"new": BitMap64([6, 7])}


@pytest.mark.parametrize("origins", [[7, 6, 5, 4, 3, 2, 1, 9], [7, 6, 5, 4, 3, 2, 1, 1]])
def test_row_ids_that_differ_trace_nothing(origins: list[int]):
    sample_table = _sample_table(row_tracking=True)
    rows = [*sample_table.rows["d2"], *sample_table.rows["d1"]]
    target = sample_table.file("new", rows, origins=origins)
    assert not trace(
        [build_remove(file) for file in sample_table.files], [target], sample_table
    ).targets


def test_row_ids_and_statistics_come_from_the_latest_add():
    def file(**rest: object) -> AddFile:
        values = {"partition_values": {}, "size": 1, "modification_time": 1, "data_change": True}
        return AddFile(path="f", **(values | rest))

    staged = file(base_row_id=1, stats="old")
    merged = restore_identity(
        staged, file(base_row_id=5, default_row_commit_version=3, stats="new")
    )
    assert (merged.base_row_id, merged.default_row_commit_version, merged.stats) == (5, 3, "new")
    assert restore_identity(staged, file()) == staged


def test_a_remove_names_the_row_ids_that_a_winner_filled_in():
    staged = current(remove("f"), remove("g"), remove("h", deletion_vector=vector("v")))
    filled = {"data_change": False, "base_row_id": 5, "default_row_commit_version": 6}
    staged_again = refresh_transaction(staged, winner(add("f", **filled), add("h", **filled)))
    removes = {removed.path: removed for removed in staged_again.removes}
    assert (removes["f"].base_row_id, removes["f"].default_row_commit_version) == (5, 6)
    assert (removes["g"], removes["h"]) == staged.removes[1:], "another file, another vector"
