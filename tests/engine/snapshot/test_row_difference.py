"""Rows that differ between two versions: by files and by the change feed, within bounds."""

import json
import struct
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import AddCDCFile, tombstone
from engine.actions.table import Protocol
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import (
    DataFileMissingError,
    ExpressionError,
    RequestError,
    UnknownColumnError,
    VersionNotFoundError,
)
from engine.schema.types import DOUBLE, LONG, STRING, StructField, StructType
from engine.snapshot.bounded_rows import ReadLimitError
from engine.snapshot.change_feed import read_changes
from engine.snapshot.row_difference import ComparedBy, ReadLimits, compare_rows
from engine.snapshot.row_pairs import find_changed_cells
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import (
    WITH_VECTORS,
    metadata,
    remove,
    write_commit,
    write_first,
    write_rows,
)

WITH_MAPPING = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["columnMapping"],
    writer_features=["columnMapping"],
)
FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*pairs):
    return pa.table({"id": pa.array([i for i, _ in pairs], pa.int64()), "name": pa.array([n for _, n in pairs], pa.string())})  # fmt: skip


def pairs(table):
    return [(row["id"], row["name"]) for row in table.to_pylist()]


@pytest.fixture
def store():
    """Return a table whose version 1 holds rows 1 to 3 in a file."""
    made = MemoryStore(f"memory://{uuid4()}")
    write_first(made, protocol=WITH_VECTORS)
    write_commit(made, 1, write_rows(made, "a.parquet", rows((1, "a"), (2, "b"), (3, "c"))))
    return made


def difference(store, older=1, newer=2, **more):
    return compare_rows(DeltaTable(store), older, newer, **more)


def rewrite(store, *kept):
    added = write_rows(store, "b.parquet", rows(*kept))
    write_commit(store, 2, remove("a.parquet"), added)


def test_rows_that_were_only_rewritten_cancel_out(store):
    rewrite(store, (3, "c"), (1, "x"), (2, "b"), (4, "d"))
    found = difference(store)
    assert pairs(found.removed) == [(1, "a")]
    assert pairs(found.added) == [(1, "x"), (4, "d")]
    assert found.before.num_rows == 0
    assert found.compared_by is ComparedBy.FILES
    assert (found.removed_count, found.added_count, found.is_whole) == (1, 2, True)


def test_with_keys_a_removed_and_an_added_row_are_one_that_changed(store):
    rewrite(store, (3, "c"), (1, "x"), (2, "b"), (4, "d"))
    found = difference(store, keys=["ID"])
    assert (pairs(found.before), pairs(found.after)) == ([(1, "a")], [(1, "x")])
    assert (pairs(found.removed), pairs(found.added)) == ([], [(4, "d")])
    assert [cells.tolist() for cells in find_changed_cells(found.before, found.after)] == [[False], [True]]  # fmt: skip
    assert not found.repeated_keys


def test_a_row_that_is_more_frequent_is_added_as_often_as_it_is_more(store):
    rewrite(store, (1, "a"), (1, "a"), (1, "a"), (3, "c"))
    found = difference(store)
    assert pairs(found.removed) == [(2, "b")]
    assert pairs(found.added) == [(1, "a"), (1, "a")]


def test_rows_that_share_a_key_are_reported(store):
    rewrite(store, (1, "x"), (1, "y"))
    found = difference(store, keys=["id"])
    assert found.repeated_keys
    assert found.before.num_rows == 1
    assert pairs(found.added) == [(1, "y")]


def test_of_a_file_with_another_deletion_vector_only_the_rows_between_are_removed_or_back(store):
    file = DeltaTable(store).snapshot(1).add_files()[0]
    for version, deleted in ((2, [0]), (3, [0, 2]), (4, [2])):
        vector = write_deletion_vector(store, deleted)
        add = msgspec.structs.replace(file, deletion_vector=vector, data_change=True)
        write_commit(store, version, tombstone(file), add)
        file = add
    assert pairs(difference(store, 1, 3).removed) == [(1, "a"), (3, "c")]
    assert difference(store, 1, 3).added.num_rows == 0
    back = difference(store, 3, 4)
    assert (pairs(back.removed), pairs(back.added)) == ([], [(1, "a")])
    assert pairs(difference(store, 2, 3).removed) == [(3, "c")]


def test_a_condition_shows_a_changed_row_that_matches_before_or_after(store):
    rewrite(store, (1, "x"), (2, "b"), (3, "z"))
    found = difference(store, keys=["id"], condition="name = 'x'")
    assert (pairs(found.before), pairs(found.after)) == ([(1, "a")], [(1, "x")])
    assert pairs(difference(store, keys=["id"], condition="name = 'c'").after) == [(3, "z")]
    assert pairs(difference(store, keys=["id"], condition="id = 3").after) == [(3, "z")]
    assert difference(store, condition="id = 2").added.num_rows == 0


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"keys": ["nowhere"]}, UnknownColumnError),
        ({"condition": "nowhere = 1"}, UnknownColumnError),
        ({"condition": "id = "}, ExpressionError),
        ({"condition": "reflect('a', 'b') = ''"}, ExpressionError),
        ({"newer": 9}, VersionNotFoundError),
        ({"limits": ReadLimits(file_bytes=10)}, ReadLimitError),
        ({"limits": ReadLimits(row_bytes=10)}, ReadLimitError),
    ],
)
def test_an_impossible_comparison_gives_its_reason(store, asked, error):
    rewrite(store, (1, "x"))
    with pytest.raises(error) as raised:
        difference(store, **asked)
    assert raised.value.remedy


def test_files_that_vacuum_deleted_are_reported(store):
    rewrite(store, (1, "x"))
    store.delete("a.parquet")
    with pytest.raises(DataFileMissingError):
        difference(store)


def test_where_rows_were_only_added_the_first_are_shown_and_all_are_counted(store):
    parts = (rows(*((n, "n") for n in span)) for span in (range(200), range(200, 300)))
    adds = [write_rows(store, f"b{n}.parquet", part) for n, part in enumerate(parts)]
    write_commit(store, 2, *adds)
    found = difference(store, limits=ReadLimits(rows_of_one_side=100, file_bytes=10))
    assert (found.added_count, found.removed_count, found.is_whole) == (300, 0, False)
    assert found.added.num_rows >= 100
    some = difference(store, condition="id >= 0", limits=ReadLimits(rows_of_one_side=100))
    assert some.added_count is None


def test_the_change_feed_is_used_where_enabled_and_files_where_it_fails(store):
    made = MemoryStore(f"memory://{uuid4()}")
    write_first(made, configuration=FEED)
    write_commit(made, 1, write_rows(made, "a.parquet", rows((1, "a"), (2, "b"), (3, "c"))))
    changes = rows((1, "a"), (1, "x")).append_column("_change_type", pa.array(["update_preimage", "update_postimage"]))  # fmt: skip
    told = write_rows(made, "_change_data/c.parquet", changes)
    feed = AddCDCFile(path=told.path, partition_values={}, size=told.size)
    new = write_rows(made, "b.parquet", rows((1, "x"), (2, "b"), (3, "c")))
    write_commit(made, 2, remove("a.parquet"), new, feed)
    by_feed = difference(made, keys=["id"])
    assert by_feed.compared_by is ComparedBy.FEED
    assert pairs(by_feed.after) == [(1, "x")]
    made.delete("_change_data/c.parquet")
    by_files = difference(made, keys=["id"])
    assert by_files.compared_by is ComparedBy.FILES
    assert (pairs(by_files.before), pairs(by_files.after)) == (pairs(by_feed.before), pairs(by_feed.after))  # fmt: skip


def test_added_columns_are_null_before_and_dropped_columns_are_reported(store):
    schema = StructType((StructField("id", LONG), StructField("note", STRING)))
    new = pa.table({"id": pa.array([1, 2], pa.int64()), "note": pa.array([None, "new"], pa.string())})  # fmt: skip
    write_commit(store, 2, metadata(schema), remove("a.parquet"), write_rows(store, "b.parquet", new))  # fmt: skip
    found = difference(store, keys=["id"])
    assert found.dropped == ("name",)
    assert found.before.to_pylist() == [{"id": 2, "note": None}]
    assert found.after.to_pylist() == [{"id": 2, "note": "new"}]
    assert found.removed.to_pylist() == [{"id": 3, "note": None}]


def test_a_type_that_old_values_do_not_fit_is_refused(store):
    schema = StructType((StructField("id", LONG), StructField("name", LONG)))
    new = pa.table({"id": pa.array([1], pa.int64()), "name": pa.array([1], pa.int64())})
    write_commit(store, 2, metadata(schema), remove("a.parquet"), write_rows(store, "b.parquet", new))  # fmt: skip
    with pytest.raises(RequestError, match="name has a different type"):
        difference(store)


def test_partitions_of_the_earlier_version_are_read_by_its_own_layout():
    made = MemoryStore(f"memory://{uuid4()}")
    write_first(made, partition_columns=["name"])
    part = pa.table({"id": pa.array([1, 2], pa.int64())})
    old = write_rows(made, "name=a/a.parquet", part, partition_values={"name": "a"})
    write_commit(made, 1, old)
    new = write_rows(made, "b.parquet", rows((1, "a"), (2, "z")))
    write_commit(made, 2, metadata(), remove(old.path, partition_values={"name": "a"}), new)
    found = difference(made, keys=["id"], condition="name = 'z'")
    assert (pairs(found.before), pairs(found.after)) == ([(2, "a")], [(2, "z")])


def inner(name, number):
    keys = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return StructField(name, LONG, metadata=keys)


def test_columns_inside_a_struct_are_compared_by_their_names_in_files():
    """A renamed column keeps its values; a new column under an old name does not get the old values."""
    made = MemoryStore(f"memory://{uuid4()}")
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}

    def version(*fields):
        struct = StructField("s", StructType(fields), metadata=inner("s", 1).metadata)
        return metadata(StructType((struct,)), configuration=mapped)

    write_commit(made, 0, WITH_MAPPING, version(inner("a", 2), inner("b", 3)))
    held = [{"col-2": 1, "col-3": 5}, {"col-2": 2, "col-3": 6}]
    write_commit(made, 1, write_rows(made, "a.parquet", {"col-1": held}))
    held = [{"col-2": 1, "col-4": None}, {"col-2": 3, "col-4": 7}]
    new = write_rows(made, "b.parquet", {"col-1": held})
    write_commit(made, 2, version(inner("x", 2), inner("b", 4)), remove("a.parquet"), new)
    found = difference(made)
    assert found.removed.to_pylist() == [{"s": {"x": 2, "b": None}}]
    assert found.added.to_pylist() == [{"s": {"x": 3, "b": 7}}]


def test_rows_of_one_version_alone_are_counted_by_the_condition_with_keys_too(store):
    part = rows(*((n, "n" if n % 2 else "m") for n in range(200)))
    write_commit(store, 2, write_rows(store, "b.parquet", part))
    asked = {"keys": ["id"], "condition": "name = 'm'"}
    assert difference(store, **asked).added_count == 100
    cut = difference(store, **asked, limits=ReadLimits(rows_of_one_side=10))
    assert (cut.added_count, cut.is_whole) == (None, False)


def test_both_zeros_are_one_value_and_so_are_all_nans():
    made = MemoryStore(f"memory://{uuid4()}")
    write_first(made, StructType((StructField("x", DOUBLE),)))
    other_nan = struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]
    write_commit(made, 1, write_rows(made, "a.parquet", {"x": [0.0, other_nan, 1.0]}))
    new = write_rows(made, "b.parquet", {"x": [float("nan"), -0.0, 2.0]})
    write_commit(made, 2, remove("a.parquet"), new)
    found = difference(made)
    assert (found.removed.to_pylist(), found.added.to_pylist()) == ([{"x": 1.0}], [{"x": 2.0}])


def test_rows_of_the_feed_that_are_too_many_bytes_are_refused():
    made = MemoryStore(f"memory://{uuid4()}")
    write_first(made, configuration=FEED)
    write_commit(made, 1, write_rows(made, "a.parquet", rows(*((1, "same") for _ in range(5000)))))
    read_changes(DeltaTable(made), 1, most_row_bytes=10**6)
    with pytest.raises(ReadLimitError):
        read_changes(DeltaTable(made), 1, most_row_bytes=10**5)


ROW = st.tuples(st.integers(0, 3), st.sampled_from("ab"))


@given(st.lists(st.lists(ROW, max_size=4), max_size=3), st.lists(st.lists(ROW, max_size=4), max_size=3))  # fmt: skip
def test_removed_and_added_rows_turn_one_version_into_the_other(old, new):
    made = MemoryStore(f"memory://{uuid4()}")
    write_first(made)
    adds = [write_rows(made, f"o{n}.parquet", rows(*part)) for n, part in enumerate(old)]
    write_commit(made, 1, *adds)
    adds = [write_rows(made, f"n{n}.parquet", rows(*part)) for n, part in enumerate(new)]
    write_commit(made, 2, *(remove(f"o{n}.parquet") for n in range(len(old))), *adds)
    found = difference(made, keys=["id"])
    before = sorted(row for part in old for row in part)
    after = sorted(row for part in new for row in part)
    gone = [*pairs(found.removed), *pairs(found.before)]
    came = [*pairs(found.added), *pairs(found.after)]
    for row in gone:
        before.remove(row)
    assert sorted([*before, *came]) == after
    assert not {json.dumps(row) for row in gone} & {json.dumps(row) for row in came}
    assert [i for i, _ in pairs(found.before)] == [i for i, _ in pairs(found.after)]
