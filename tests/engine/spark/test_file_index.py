"""The engine's answer when Spark asks for a table's files: those that a query needs, with their vectors."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark_types

from engine.actions.files import AddFile
from engine.commands.model import Append, Create, DataFrameSource, Delete
from engine.deletion_vectors.files import write_deletion_vector
from engine.delta.table_reads import frame_of
from engine.operations.run import run
from engine.schema.types import DOUBLE, LONG, STRING, TIMESTAMP, StructField, StructType
from engine.spark.jvm import get_analyzed_plan
from engine.spark.scan import deletion_vectors
from engine.spark.scan.file_index import IndexedFiles, directories, read_indexed_rows
from engine.spark.scan.reader import FILE, ROW, ScanRequest, scan
from engine.spark.session import SAFE_CONFIGURATION
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store
from engine.table import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

SCHEMA = StructType(
    (StructField("id", LONG), StructField("p", STRING), StructField("at", TIMESTAMP))
)
FILES, ROWS = 5, 300
PARTITIONS = ["a", "b%2", None, "", "Å b"]


def _table(place, partition_columns=()):
    """Create five files of 300 rows in a partition each: ids from 0, and `at` one second later in each row."""
    kept = [field for field in SCHEMA if field.name not in partition_columns]
    place.mkdir(exist_ok=True)
    table = DeltaTable.create(str(place), SCHEMA, partition_columns=list(partition_columns))
    txn = table.start_transaction()
    for number, partition in enumerate(PARTITIONS):
        first = number * ROWS
        ids = range(first, first + ROWS)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array([partition] * ROWS, pa.string()),
            "at": pa.array([id_ * 1_000_000 for id_ in ids], pa.timestamp("us", "UTC")),
        }
        name = f"part-{number}.parquet"
        pq.write_table(pa.table({field.name: columns[field.name] for field in kept}), place / name)
        bounds = [
            f"1970-01-01T00:{id_ // 60:02}:{id_ % 60:02}.000Z" for id_ in (first, first + 299)
        ]
        stats = (
            f'{{"numRecords":{ROWS},"minValues":{{"id":{first},"at":"{bounds[0]}"}},'
            f'"maxValues":{{"id":{first + 299},"at":"{bounds[1]}"}},"nullCount":{{"id":0,"at":0}}}}'
        )
        values = {"p": partition} if partition_columns else {}
        size = (place / name).stat().st_size
        txn.stage(
            AddFile(
                path=name,
                partition_values=values,
                size=size,
                modification_time=0,
                data_change=True,
                stats=stats,
            )
        )
    txn.commit("WRITE", {"mode": "Append"})
    return table


def _remove_others(place, *numbers):
    for number in set(range(FILES)) - set(numbers):
        (Path(place) / f"part-{number}.parquet").unlink()


@pytest.mark.parametrize(
    "condition",
    [
        "id = 650",
        "id > 600 AND id <= 650",
        "id IN (601, 899) AND p IS NULL",
        "id BETWEEN 600 AND 800 AND hex(p) IS NULL",
        "at = TIMESTAMP '1970-01-01 00:11:00Z'",
        "NOT (id < 600 OR id > 899)",
    ],
)
def test_files_that_statistics_rule_out_are_not_opened(spark, tmp_path, condition):
    frame = frame_of(spark, _table(tmp_path))
    everything = {row.id for row in frame.filter(condition).collect()}
    _remove_others(tmp_path, 2)
    assert {row.id for row in frame.filter(condition).collect()} == everything
    assert everything
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        frame.filter("id + 1 = 650").collect()


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("x = double('NaN')", 1),
        ("x > 5", 1),
        ("NOT x <= 5", 1),
        ("x IN (7, double('NaN'))", 1),
        ("inside.y > 5", 1),
        ("x < 5", 2),
        ("x IS NOT NULL", 3),
    ],
)
def test_bounds_that_leave_nan_out_rule_no_rows_out(spark, tmp_path, condition, count):
    """Bounds of a row group exclude NaN, which is greater than any number in Spark."""
    place = str(tmp_path / "table")
    values = [(1.0,), (float("nan"),), (2.0,), (None,)]
    rows = spark.createDataFrame(values, "x double").selectExpr(
        "x", "named_struct('y', cast(x AS float)) AS inside"
    )
    store = open_store(place)
    table = DeltaTable(store)
    create = Create(schema=None, source=DataFrameSource(rows.coalesce(1)))
    run(create, table, spark)
    frame = frame_of(spark, table)
    assert frame.filter(condition).count() == count
    result = run(Delete(where=condition), table, spark, in_process_bytes=0)
    assert result.metrics["numDeletedRows"] == count


def test_a_column_of_floats_is_as_nullable_as_declared_and_skips_files(spark, tmp_path):
    schema = StructType((StructField("x", DOUBLE, nullable=False),))
    table = DeltaTable.create(str(tmp_path / "table"), schema)
    for start in (0, 100):
        rows = spark.range(start, start + 10).selectExpr("CAST(id AS double) AS x").coalesce(1)
        run(Append(DataFrameSource(rows)), table, spark)
    frame = frame_of(spark, table)
    assert not frame.schema["x"].nullable
    file = next(add for add in table.snapshot().add_files() if '"x":9.0' in (add.stats or ""))
    (tmp_path / "table" / file.path).unlink()
    assert frame.filter("x = 105").count() == 1


def test_times_are_ruled_out_in_no_other_time_zone(spark, tmp_path):
    """A time rendered in the session's zone would be read as a different one."""
    table, other = _table(tmp_path), spark.newSession()
    for key in SAFE_CONFIGURATION:
        if key.startswith("spark.sql.") and other.conf.isModifiable(key):
            other.conf.set(key, SAFE_CONFIGURATION[key])
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    rows = frame_of(other, table).filter("at = TIMESTAMP '1970-01-01 09:11:00'").collect()
    assert [row.id for row in rows] == [660]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("p = 'a'", {0}),
        ("p IS NULL", {2, 3}),
        ("upper(p) LIKE 'B%'", {1}),
        ("p > 'a' AND id >= 0", {1, 4}),
        ("p = 'nothing'", set()),
        ("p <=> NULL AND id = 650", {2}),
    ],
)
def test_partitions_are_chosen_by_any_condition(spark, tmp_path, condition, left):
    frame = frame_of(spark, _table(tmp_path, ["p"])).filter(condition)
    assert {row.id // ROWS for row in frame.collect()} == left
    _remove_others(tmp_path, *left)
    assert {row.id // ROWS for row in frame.select("id").collect()} == left


def test_partitions_are_chosen_by_the_results_of_a_join(spark, tmp_path):
    frame = frame_of(spark, _table(tmp_path, ["p"]))
    wanted = spark.createDataFrame([("a",), ("b%2",)], "p string").filter("p <> 'a'")
    joined = frame.join(F.broadcast(wanted), "p")
    assert {row.id // ROWS for row in joined.collect()} == {1}
    both = frame.alias("a").join(frame.alias("b"), F.expr("a.id = b.id AND a.p = 'a'"))
    assert both.count() == ROWS


@pytest.mark.parametrize("most_words", [0, 8, deletion_vectors.MOST_WORDS])
def test_deleted_rows_are_left_out_whatever_vectors_there_are(
    spark, tmp_path, monkeypatch, most_words
):
    """The vectors mark first and last bits of words, whole files, and nothing; some files have none."""
    monkeypatch.setattr(deletion_vectors, "MOST_WORDS", most_words)
    table = TableFiles(str(tmp_path), SCHEMA)
    deleted = [range(0, 300, 7), None, {0, 63, 64, 127, 128, 299}, range(300), ()]
    _table(tmp_path)
    adds, store = [], open_store(str(tmp_path))
    for number, rows in enumerate(deleted):
        vector = None if rows is None else write_deletion_vector(store, rows)
        path = f"part-{number}.parquet"
        adds.append(
            AddFile(
                path=path,
                partition_values={},
                size=1,
                modification_time=0,
                data_change=True,
                deletion_vector=vector,
            )
        )
    live = {
        (number, row)
        for number, rows in enumerate(deleted)
        for row in range(ROWS)
        if row not in (rows or ())
    }
    positioned = scan(spark, table, ScanRequest(adds, positions=True))
    assert {(row[FILE], row[ROW]) for row in positioned.collect()} == live
    ids = scan(spark, table, ScanRequest(adds, columns=frozenset({"id"}))).collect()
    assert {divmod(row.id, ROWS) for row in ids} == live
    some = scan(spark, table, ScanRequest(adds, only=frozenset({2, 4}))).filter("id % 300 < 65")
    assert {row.id % ROWS for row in some.collect() if row.id < 900} == set(range(65)) - {0, 63, 64}


def test_a_scan_of_deleted_rows_stays_in_generated_code(spark, tmp_path):
    table = _table(tmp_path)
    add = table.snapshot().add_files()[0]
    vector = write_deletion_vector(table.store, [1])
    masked = AddFile(
        path=add.path,
        partition_values={},
        size=add.size,
        modification_time=0,
        data_change=True,
        deletion_vector=vector,
    )
    frame = scan(spark, TableFiles(str(tmp_path), SCHEMA), ScanRequest([masked]))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    assert "Join" not in plan
    assert "*(1) Filter" in plan
    assert len(plan) < 5000


def test_a_cached_version_is_not_scanned_again(spark, tmp_path):
    table = _table(tmp_path)
    cached = frame_of(spark, table).cache()
    try:
        again = frame_of(spark, DeltaTable.open(str(tmp_path)))
        assert "InMemoryTableScan" in again._jdf.queryExecution().toString()
        other = _table(tmp_path / "other")
        frame = frame_of(spark, other)
        assert "InMemoryTableScan" not in frame._jdf.queryExecution().toString()
    finally:
        cached.unpersist()


def test_sizes_and_names_of_files_are_spark_s_to_ask_for(spark, tmp_path):
    frame = frame_of(spark, _table(tmp_path))
    assert sorted(frame.inputFiles()) == [f"file:{tmp_path}/part-{n}.parquet" for n in range(FILES)]
    add = AddFile(path="x", partition_values={}, size=1, modification_time=0, data_change=True)
    listed = IndexedFiles(str(tmp_path), [add], ["/x"], [1 << 40], [], frame.schema)
    large = get_analyzed_plan(read_indexed_rows(spark, listed)).stats().sizeInBytes()
    assert large == 1 << 40


def test_queries_of_several_threads_get_their_own_files(spark):
    schema = spark_types.StructType().add("p", "string")
    places, rounds = range(3000), 4

    def wrong_lines(table):
        files = [(f"/{table}/f{place}", 1, 0) for place in places]
        values = pa.table({"p": [f"{table}-{place}" for place in places]})
        for _ in range(rounds):
            made = directories(spark, schema, values, files).mkString("\n").split("\n")
            yield from (
                line
                for place, line in zip(places, made, strict=True)
                if f"([{table}-{place}]," not in line or f"path=/{table}/f{place};" not in line
            )

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda table: list(wrong_lines(table)), "ab")) == [[], []]
