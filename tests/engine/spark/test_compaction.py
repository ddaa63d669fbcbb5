"""The functions that executors run on files, called as executors call them."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.actions.codec import decode
from engine.actions.files import AddFile
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vector
from engine.errors import DeletionVectorError
from engine.schema.types import DATE, LONG, STRING, TIMESTAMP, StructField, StructType
from engine.spark.file_writer import FileTarget
from engine.spark.row_positions import VectorMerge, build_merge_task, gather_positions
from engine.spark.table_files import arrow_schema
from engine.spark.write.compaction import CompactionJob, compact_bin
from engine.spark.write.zorder import RankBoundaries, ZOrderCurve, boundaries_of
from engine.storage.uri import open_store

PHYSICAL = "delta.columnMapping.physicalName"
IDS = ({"delta.columnMapping.id": 1}, {"delta.columnMapping.id": 2147483540})
MAPPED = ((2, "a"), (3, "b"))
FOREIGN = (("A", "1"), ("b", "2"))  # by a writer that numbers the columns of a file by their places
INNER = StructType((StructField("x", LONG), StructField("y", STRING)))
SCHEMA = StructType((StructField("id", LONG), StructField("s", INNER), StructField("_rid", LONG)))


def _add(root, name, table, deleted=(), **values):
    pq.write_table(table, Path(root) / name, row_group_size=2)
    vector = write_deletion_vector(open_store(str(root)), deleted) if deleted else None
    return AddFile(
        path=name,
        partition_values={},
        size=1,
        modification_time=0,
        data_change=True,
        stats=f'{{"numRecords":{table.num_rows}}}',
        deletion_vector=vector,
        **values,
    )


def _compact(root, *adds):
    return _compact_as(root, SCHEMA, "none", *adds)


def _compact_as(root, schema, mode, *adds):
    target = FileTarget(str(root), schema, arrow_schema(schema), write_id=mode, data_change=False)
    job = CompactionJob(target, (adds,), ("_rid", None), mapping_mode=mode)
    report = compact_bin(job, 0).to_pylist()[0]
    action = decode(report["action"]) if report["action"] else None
    return action, report["source_rows"]


def test_files_of_older_schemas_become_one_in_order(tmp_path):
    old = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    new = pa.table(
        {
            "extra": [0, 0],
            "s": pa.array([{"y": "b"}, None], pa.struct([("y", pa.string())])),
            "id": [4, 5],
            "_rid": [None, 70],
        }
    )
    action, rows = _compact(
        tmp_path,
        _add(tmp_path, "old", old, deleted=[1], base_row_id=10),
        _add(tmp_path, "new", new, base_row_id=20),
    )
    merged = pq.read_table(tmp_path / action.path).to_pylist()
    assert [row["id"] for row in merged] == [1, 3, 4, 5]
    assert [row["s"] for row in merged] == [None, None, {"x": None, "y": "b"}, None]
    assert [row["_rid"] for row in merged] == [10, 12, 20, 70]
    assert rows == [3, 2]
    assert action.data_change is False


def test_days_that_older_sparks_counted_keep_their_names(tmp_path):
    schema = StructType((StructField("d", DATE), StructField("t", TIMESTAMP)))
    days = pa.array([-719164, 0], pa.int32()).cast(pa.date32())
    moments = pa.array([-719164 * 86_400_000_000, 0], pa.timestamp("us", "UTC"))
    marked = pa.table({"d": days, "t": moments}).replace_schema_metadata(
        {"org.apache.spark.version": "2.4.8"}
    )
    action, _ = _compact_as(tmp_path, schema, "none", _add(tmp_path, "old", marked))
    rows = pq.read_table(tmp_path / action.path)
    assert rows["d"].to_pylist() == [date(1, 1, 1), date(1970, 1, 1)]
    assert [moment.date() for moment in rows["t"].to_pylist()] == rows["d"].to_pylist()


def test_columns_are_found_as_readers_find_them(tmp_path):
    ids = ({"delta.columnMapping.id": n, "delta.columnMapping.physicalName": p} for n, p in MAPPED)
    schema = StructType(tuple(StructField(id_[PHYSICAL], LONG, metadata=id_) for id_ in ids))
    numbered = pa.schema(
        [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": n}) for name, n in FOREIGN]
    )
    add = _add(tmp_path, "foreign", pa.table([[1], [2]], schema=numbered))
    by_name, _ = _compact_as(tmp_path, schema, "name", add)
    assert pq.read_table(tmp_path / by_name.path).to_pylist() == [{"a": 1, "b": 2}]
    by_id, _ = _compact_as(tmp_path, schema, "id", add)
    assert pq.read_table(tmp_path / by_id.path).to_pylist() == [{"a": 2, "b": None}]


def test_row_ids_are_found_by_name_whatever_ids_columns_have(tmp_path):
    """In files written before the upgrade for Iceberg clients, that column has no id."""
    marked = (StructField("id", LONG, metadata=IDS[0]), StructField("_rid", LONG, metadata=IDS[1]))
    fields = [pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"}), ("_rid", pa.int64())]
    add = _add(tmp_path, "a", pa.table([[5], [70]], schema=pa.schema(fields)), base_row_id=10)
    action, _ = _compact_as(tmp_path, StructType(marked), "id", add)
    assert pq.read_table(tmp_path / action.path).to_pylist() == [{"id": 5, "_rid": 70}]


def test_names_may_differ_in_case_alone(tmp_path):
    add = _add(tmp_path, "a", pa.table({"ID": [1, 2]}))
    action, _ = _compact(tmp_path, add)
    assert pq.read_table(tmp_path / action.path)["id"].to_pylist() == [1, 2]


def test_files_without_a_live_row_are_removed(tmp_path):
    action, _ = _compact(tmp_path, _add(tmp_path, "a", pa.table({"id": [1, 2]}), deleted=[0, 1]))
    assert action is None
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


def test_files_that_lack_every_column_keep_their_rows(tmp_path):
    action, _ = _compact(tmp_path, _add(tmp_path, "a", pa.table({"other": [1, 2, 3]})))
    assert pq.read_table(tmp_path / action.path)["id"].to_pylist() == [None] * 3


def _positions(*pairs):
    files, rows = zip(*pairs, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(files, pa.int32()), pa.array(rows, pa.int64())], names=["file", "row"]
    )


def _merge_vectors(root, adds, *batches):
    merge = VectorMerge(str(root), {}, dict(enumerate(adds)), write_vectors=True)
    report = list(build_merge_task(merge)(gather_positions(batches)))
    return {row["file"]: row for batch in report for row in batch.to_pylist()}


def test_positions_are_added_to_an_existing_vector(tmp_path):
    table = pa.table({"id": list(range(10))})
    adds = [_add(tmp_path, "a", table, deleted=[0, 1]), _add(tmp_path, "b", table)]
    rows = _merge_vectors(tmp_path, adds, _positions((0, 5), (1, 9), (0, 5)), _positions((0, 7)))
    assert (rows[0]["deleted"], rows[0]["total"], rows[0]["physical"]) == (2, 4, 10)
    vector = msgspec.json.decode(rows[0]["vector"], type=type(adds[0].deletion_vector))
    assert set(read_deletion_vector(open_store(str(tmp_path)), vector)) == {0, 1, 5, 7}


def test_a_file_that_loses_every_row_needs_no_vector(tmp_path):
    add = _add(tmp_path, "a", pa.table({"id": [1, 2]}))
    rows = _merge_vectors(tmp_path, [add], _positions((0, 0), (0, 1)))
    assert (rows[0]["total"], rows[0]["vector"]) == (2, None)


def test_rows_are_counted_in_the_footer_where_statistics_do_not_say(tmp_path):
    add = msgspec.structs.replace(_add(tmp_path, "a", pa.table({"id": [1, 2, 3]})), stats=None)
    assert _merge_vectors(tmp_path, [add], _positions((0, 2)))[0]["physical"] == 3


def test_rows_beyond_a_file_are_refused_whatever_the_log_claims(tmp_path):
    add = _add(tmp_path, "a", pa.table({"id": [1, 2]}), deleted=[0, 2])
    for stats in (None, '{"numRecords":2}', '{"numRecords":1000}'):
        lie = msgspec.structs.replace(add, stats=stats)
        with pytest.raises(DeletionVectorError, match="deletes row 2, but the file has 2 rows"):
            _compact(tmp_path, lie)
        with pytest.raises(DeletionVectorError, match="deletes row 2, but the file has 2 rows"):
            _merge_vectors(tmp_path, [lie], _positions((0, 1)))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, 1, 2]),
        pa.array(["c", None, "a", "b"]),
        pa.array([2.0, None, float("-inf"), 0.5]),
        pa.array([3, None, 1, 2], pa.date32()),
        pa.array([3, None, 1, 2], pa.timestamp("us", "UTC")),
        pa.array([b"c", None, b"a", b"b"]),
        pa.array([float("nan"), None, -0.5, 0.0]),
        pa.array([Decimal("3.0"), None, Decimal("-1.0"), Decimal("2.0")]),
        pa.array(["\U0001f600", None, "", "\uff5e"]),
    ],
)
def test_ranks_follow_the_order_of_values_with_null_first(values):
    ranks = RankBoundaries((boundaries_of(values, 4),), 4)
    order = np.argsort(ranks.curve([values]), kind="stable")
    assert order.tolist() == [1, 2, 3, 0]


def test_the_curve_mixes_the_bits_of_both_columns():
    values = pa.array(range(4))
    boundaries = boundaries_of(pa.array([1, 2, 3]), 2)
    ranks = RankBoundaries((boundaries, boundaries), 2)
    grid = [ranks.curve([pa.array([x] * 4), values]).tolist() for x in range(4)]
    assert grid == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


def test_the_curve_is_cut_into_pieces_of_about_as_many_rows_each_after_the_other():
    x, y = (pa.array(np.random.default_rng(seed).permutation(4000)) for seed in (1, 2))
    curve = ZOrderCurve.fit(pa.table({"x": x[::4], "y": y[::4]}), 5)
    placed = curve.place([x, y])
    places, pieces = (placed.field(name).to_numpy() for name in ("place", "piece"))
    assert all(700 < count < 900 for count in np.bincount(pieces, minlength=5))
    assert (np.diff(pieces[np.argsort(places, kind="stable")]) >= 0).all()


@pytest.mark.parametrize("sample", [[], [None], [7, 7, 7]])
def test_a_sample_that_says_nothing_of_an_order_makes_one_piece(sample):
    column = pa.array(sample, pa.int64())
    curve = ZOrderCurve.fit(pa.table({"x": column, "y": column}), 3)
    values = pa.array([7, None, 7], pa.int64())
    pieces = set(curve.place([values.take(pa.array([0, 2]))] * 2).field("piece").to_pylist())
    assert len(pieces) == 1
    assert curve.place([values, values]).field("piece").null_count == 0
