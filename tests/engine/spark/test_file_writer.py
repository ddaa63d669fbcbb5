import datetime as dt
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.protocol.properties import TableProperties
from engine.schema.types import DATE, DOUBLE, LONG, STRING, StructField, StructType
from engine.spark.file_writer import FileTarget, PartitionField, write_files
from engine.spark.table_files import TableFiles, arrow_schema
from engine.spark.write.writer import file_target

SCHEMA = StructType((StructField("id", LONG), StructField("v", DOUBLE)))


def _target(root, partitions=(), **more):
    return FileTarget(str(root), SCHEMA, arrow_schema(SCHEMA), partitions, write_id="w", **more)


def _batch(ids, *partitions):
    columns = [pa.array(ids, pa.int64()), pa.array([1.0] * len(ids)), *partitions]
    return pa.RecordBatch.from_arrays(columns, names=["id", "v", *"pqr"[: len(partitions)]])


def test_each_run_of_partition_values_becomes_a_file(tmp_path):
    fields = (PartitionField("p", "p", STRING), PartitionField("q", "q", DATE))
    day = pa.array([dt.date(2024, 1, 1)] * 4, pa.date32())
    batch = _batch([1, 2, 3, 4], pa.array(["a b/%", "a b/%", None, None]), day)
    written = list(write_files([batch, batch.slice(2)], _target(tmp_path, fields), 3))
    assert [rows for _, rows in written] == [2, 4]
    first, second = (add for add, _ in written)
    assert first.partition_values == {"p": "a b/%", "q": "2024-01-01"}
    assert second.partition_values == {"p": None, "q": "2024-01-01"}
    assert second.path.startswith("p=__HIVE_DEFAULT_PARTITION__/q=2024-01-01/part-00003-w-")
    place = Path(tmp_path) / unquote(first.path)
    assert pq.read_table(place, partitioning=None)["id"].to_pylist() == [1, 2]
    assert place.stat().st_size == first.size


def test_random_directories_say_nothing_of_partitions(tmp_path):
    fields = (PartitionField("col-1", "p", STRING),)
    target = _target(tmp_path, fields, random_prefix_length=3)
    adds = [add for add, _ in write_files([_batch([1, 2], pa.array(["a", "b"]))], target, 0)]
    for action in adds:
        directory, _, name = action.path.partition("/")
        assert len(directory) == 3
        assert directory.isalnum()
        assert name.startswith("part-")
    assert [action.partition_values for action in adds] == [{"col-1": "a"}, {"col-1": "b"}]


@pytest.mark.parametrize(
    ("configuration", "length"),
    [
        ({}, 0),
        ({"delta.randomizeFilePrefixes": "true"}, 2),
        ({"delta.columnMapping.mode": "name"}, 2),
        ({"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "5"}, 5),
        ({"delta.randomPrefixLength": "5"}, 0),
    ],
    ids=str,
)
def test_a_table_says_whether_its_files_lie_in_random_directories(configuration, length):
    files = TableFiles("t", SCHEMA, properties=TableProperties.parse(configuration))
    assert file_target(files).random_prefix_length == length


def test_nan_partitions_are_one_partition(tmp_path):
    nan = pa.array([float("nan")] * 3)
    fields = (PartitionField("p", "p", DOUBLE),)
    written = list(write_files([_batch([1, 2, 3], nan)], _target(tmp_path, fields), 0))
    assert [rows for _, rows in written] == [3]


def test_files_roll_over_at_the_target_size(tmp_path):
    batches = [_batch(list(range(i * 1000, i * 1000 + 1000))) for i in range(20)]
    written = list(write_files(batches, _target(tmp_path, target_size_bytes=20_000), 0))
    assert len(written) > 2
    assert sum(rows for _, rows in written) == 20_000


def test_a_failure_leaves_no_open_file_behind(tmp_path):
    def batches():
        yield _batch([1])
        raise RuntimeError("the source broke")  # noqa: EM101, TRY003

    with pytest.raises(RuntimeError):
        list(write_files(batches(), _target(tmp_path), 0))
    assert not list(tmp_path.iterdir())


def test_no_rows_make_no_file(tmp_path):
    assert list(write_files([_batch([])], _target(tmp_path), 0)) == []
    assert not list(tmp_path.iterdir())


def test_a_nan_removes_the_bounds_of_its_column(tmp_path):
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([float("nan")])], names=["id", "v"])
    add, _ = next(write_files([batch], _target(tmp_path), 0))
    assert '"maxValues":{"id":1}' in add.stats


def test_a_file_gets_no_more_rows_than_it_may_have(tmp_path):
    fields = (PartitionField("p", "p", STRING),)
    batch = _batch([1, 2, 3, 4, 5], pa.array(["a", "a", "a", "a", "b"]))
    again = _batch([6, 7], pa.array(["b", "b"]))
    written = list(write_files([batch, again], _target(tmp_path, fields, max_rows=3), 0))
    assert [rows for _, rows in written] == [3, 1, 3]
    places = [Path(tmp_path) / unquote(action.path) for action, _ in written]
    ids = [pq.read_table(place, partitioning=None)["id"].to_pylist() for place in places]
    assert ids == [[1, 2, 3], [4], [5, 6, 7]]
