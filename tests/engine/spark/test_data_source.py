"""The data source `lake`: batches and streams as source and sink, repeated batches, and refusals."""

import json
import shutil

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, StringStartsWith
from pyspark.sql.streaming.datasource import ReadAllAvailable

from engine.commands.sql import parse_statement
from engine.errors import (
    ConcurrentTransactionException,
    InvariantViolationError,
    MetadataChangedException,
    PathOutsideRootError,
    RequestError,
    SchemaMismatchError,
    TableReplacedError,
)
from engine.operations.run import run
from engine.operations.stream_batches import batch_writer
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.snapshot.stream_log import SourceSchemaChangedError
from engine.spark.columns import to_spark_schema
from engine.spark.data_source import LakeDataSource, register
from engine.spark.data_source_options import LakeOptions, SourcePlace
from engine.spark.jvm import source_exists
from engine.spark.write.incoming_rows import IncomingRows
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.lake_writes import (
    COLUMNS,
    append,
    batch,
    data_files,
    delete,
    ids,
    lake_source,
    list_unlogged_files,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

FRAME = "id long, p string, s struct<x:int>"
MAPPED = (
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
)


@pytest.fixture
def lake(spark):
    register(spark)
    return spark


def test_a_session_registers_it_whether_or_not_another_one_has(lake):
    other = lake.newSession()
    lake.createDataFrame([(1,)], "n int").count()  # the thread's active session is this one
    register(other)
    register(lake)
    assert all(source_exists(session, "lake") for session in (lake, other))


@pytest.fixture
def ddl(tmp_path):
    """Return a function that runs a statement without rows on the named table, which it may create."""

    def perform(name, statement):
        table = DeltaTable(open_store(str(tmp_path / name)))
        run(parse_statement(statement), table, None)
        return table

    return perform


@pytest.fixture
def source(ddl):
    """Return a table with partitions, column mapping and deletion vectors: ids 1 to 6 without 2."""
    made = ddl("a source", f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (p) {MAPPED}")
    append(made, (1, "a b", {"x": 1}), (2, "a b", {"x": 2}), (3, None, {"x": 3}))
    append(made, (4, "a b", {"x": 4}), (5, "a b", {"x": 5}), (6, None, {"x": 6}))
    delete(made, 2)
    return made


def copy(lake, source, target, checkpoint, **options):
    """Stream one table's new rows into another, and wait; return the rows of each batch."""
    reader = lake.readStream.format("lake").options(**options)
    query = (
        reader.load(source.uri)
        .writeStream.format("lake")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(target.uri)
    )
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_a_table_of_every_kind_is_read_as_the_engine_reads_it(lake, source):
    reader = lake.read.format("lake")
    frame = reader.load(source.uri)
    assert frame.schema == to_spark_schema(source.snapshot().schema)
    rows = [row.asDict(recursive=True) for row in frame.orderBy("id").collect()]
    assert rows == sorted(source.snapshot().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [row.id for row in frame.filter("p is null and s.x > 3").collect()] == [6]
    earlier = reader.option("versionAsOf", 1).schema("id long").load(source.uri)
    assert sorted(row.id for row in earlier.collect()) == [1, 2, 3]


def test_filters_leave_files_out_and_are_left_to_spark(source):
    class Pushed(LakeDataSource):
        prunes = True

    reader = Pushed({"path": source.uri}).reader(to_spark_schema(source.snapshot().schema))
    filters = [IsNotNull(("p",)), GreaterThan(("id",), 3), StringStartsWith(("p",), "a")]
    assert reader.pushFilters([*filters, In(("id",), (4, 5)), EqualTo(("id",), "no number")])
    (piece,) = reader.partitions()
    assert len(piece.value) == 1
    (rows,) = reader.read(piece)
    assert rows.column("id").to_pylist() == [4, 5]


def test_rows_are_appended_and_overwritten_by_name(lake, ddl, tmp_path, rows_elsewhere):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (p)")
    frame = lake.createDataFrame([(1, "a/b", (1,)), (2, None, None), (3, "a/b", (None,))], FRAME)
    frame.select("s", "P", "id").write.format("lake").mode("append").save(table.uri)
    frame.select("id").write.format("lake").mode("append").save(table.uri)
    assert ids(table) == [1, 1, 2, 2, 3, 3]
    assert table.history(1)[0].is_blind_append is True
    assert table.history(1)[0].operation_metrics["numOutputRows"] == "3"
    frame.filter("id < 3").write.format("lake").mode("overwrite").save(table.uri)
    rows = rows_elsewhere(table)
    expected = sorted([(1, "a/b", {"x": 1}), (2, None, None)], key=repr)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == expected


def test_a_row_that_breaks_a_rule_fails_the_write_and_leaves_nothing(lake, ddl):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    ddl("t", "ALTER TABLE t ADD CONSTRAINT small CHECK (id < 100)")
    frame = lake.range(0, 200, 1, 1).selectExpr("id", "'x' AS p")
    with pytest.raises(PySparkException, match=r"constraint small \(`id` < 100\): id = 100"):
        frame.write.format("lake").mode("append").save(table.uri)
    assert table.version() == 1
    assert data_files(table) == []


def test_an_aborted_write_removes_its_files(ddl):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    schema = to_spark_schema(table.snapshot().schema)
    writer = lake_source(table).writer(schema, overwrite=True)
    staged = writer.write(iter([batch((1, "x", None))]))
    ddl("t", "ALTER TABLE t ADD COLUMNS (more STRING)")
    with pytest.raises(MetadataChangedException):
        writer.commit([staged])
    assert data_files(table) == []
    writer.abort([staged])  # as Spark does after a failed commit
    assert table.version() == 1


@pytest.mark.parametrize("streams", [False, True])
def test_rows_for_a_table_never_go_into_another_one_made_in_its_place(ddl, streams):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    schema = to_spark_schema(table.snapshot().schema)
    source = lake_source(table, queryId="q")
    writer = (source.streamWriter if streams else source.writer)(schema, overwrite=False)
    staged = writer.write(iter([batch((1, "x", None))]))
    shutil.rmtree(table.uri)
    anew = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    with pytest.raises(TableReplacedError):
        writer.commit([staged], *([0] if streams else []))
    assert anew.version() == 0


def test_a_frame_reads_no_other_table_made_in_the_place_of_its_own(ddl):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    source = lake_source(table)
    schema = source.schema()
    source.reader(schema)
    shutil.rmtree(table.uri)
    ddl("t", f"CREATE TABLE t ({COLUMNS})")
    with pytest.raises(TableReplacedError):
        source.reader(schema)


def test_an_abort_after_failed_tasks_removes_the_files_of_the_others(ddl):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    schema = to_spark_schema(table.snapshot().schema)
    writer = lake_source(table).writer(schema, overwrite=False)
    writer.abort([writer.write(iter([batch((1, "x", None))])), None])
    assert data_files(table) == []
    sink = lake_source(table, queryId="q").streamWriter(schema, overwrite=False)
    sink.abort([sink.write(iter([batch((1, "x", None))])), None], 0)
    assert data_files(table) == []


RULES = [
    ("id BIGINT NOT NULL, p STRING", {"p": "string"}, InvariantViolationError, "NOT NULL of id"),
    (
        "id BIGINT",
        {"id": "string"},
        SchemaMismatchError,
        "has the type bigint, but the data has the type string",
    ),
    ("id BIGINT", {"id": "long", "n": "long"}, SchemaMismatchError, "n, but the table does not"),
    (
        "id BIGINT, k BIGINT GENERATED ALWAYS AS IDENTITY",
        {"id": "long"},
        RequestError,
        "has the identity column k.*foreachBatch",
    ),
]


@pytest.mark.parametrize(("columns", "data", "error", "words"), RULES)
def test_rows_that_a_table_does_not_accept_are_refused_by_name(ddl, columns, data, error, words):
    table = ddl("t", f"CREATE TABLE t ({columns})")
    snapshot = table.snapshot()
    given = StructType(tuple(StructField(name, PrimitiveType(t)) for name, t in data.items()))
    rows = pa.RecordBatch.from_pydict({name: pa.array(["x"]) for name in data})
    with pytest.raises(error, match=words):
        IncomingRows.plan("t", snapshot.metadata, snapshot.schema, given, 0).apply(rows)


def test_columns_are_generated_and_defaulted_as_the_table_says(ddl):
    table = ddl(
        "t",
        "CREATE TABLE t (id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2), n INT DEFAULT 7)"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    )
    snapshot = table.snapshot()
    given = StructType((StructField("id", PrimitiveType("integer")),))
    plan = IncomingRows.plan("t", snapshot.metadata, snapshot.schema, given, 0)
    rows = plan.apply(pa.RecordBatch.from_pydict({"id": pa.array([1, None], pa.int32())}))
    assert rows.to_pylist() == [
        {"id": 1, "twice": 2, "n": 7},
        {"id": None, "twice": None, "n": 7},
    ]
    both = StructType((*given, StructField("twice", PrimitiveType("long"))))
    plan = IncomingRows.plan("t", snapshot.metadata, snapshot.schema, both, 0)
    wrong = {"id": pa.array([1], pa.int32()), "twice": pa.array([3], pa.int64())}
    with pytest.raises(
        InvariantViolationError, match=r"generation of twice \(id \* 2\): twice = 3"
    ):
        plan.apply(pa.RecordBatch.from_pydict(wrong))


OPTIONS = [
    ({}, "no path to the table"),
    ({"path": "memory://m/t"}, "the memory of another process"),
    ({"path": "/t", "replaceWhere": "id = 1"}, "has no option replacewhere"),
    ({"path": "/t", "mergeSchema": "true"}, "has no option mergeschema"),
    ({"path": "/t", "versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "cannot both be given"),
    ({"path": "/t", "startingVersion": "first"}, "not a whole number"),
    ({"path": "/t", "maxFilesPerTrigger": "0"}, "no batch could contain a file"),
    ({"path": "/t", "maxBytesPerTrigger": "many"}, "not a size"),
    ({"path": "/t", "ignoreDeletes": "yes"}, "Use true or false"),
]


@pytest.mark.parametrize(("given", "words"), OPTIONS)
def test_options_that_cannot_be_are_refused(given, words):
    with pytest.raises(RequestError, match=words):
        LakeOptions.parse(given, SourcePlace())


def test_options_come_in_any_case_and_tables_from_allowed_places_alone(tmp_path):
    given = {"PATH": str(tmp_path / "t"), "MaxBytesPerTrigger": "2k", "storage.region": "x"}
    parsed = LakeOptions.parse(given, SourcePlace({"key": "k"}, table_roots=(str(tmp_path),)))
    assert (parsed.limits.max_bytes, parsed.limits.max_files) == (2048, None)
    assert parsed.storage_options == {"key": "k", "region": "x"}
    with pytest.raises(PathOutsideRootError):
        LakeOptions.parse({"path": "/elsewhere"}, SourcePlace(table_roots=(str(tmp_path),)))


@pytest.mark.stress  # `make test` has such a stream in engine.delta's tests
def test_a_stream_copies_a_table_and_continues_where_it_was(lake, ddl, source, tmp_path):
    target = ddl("target", f"CREATE TABLE t ({COLUMNS})")
    checkpoint = tmp_path / "checkpoint"
    first = copy(lake, source, target, checkpoint, maxFilesPerTrigger=3)
    assert (len([n for n in first if n]), sum(first)) == (2, 5)
    append(source, (7, "c", None))
    assert sum(copy(lake, source, target, checkpoint)) == 1
    assert ids(target) == [1, 3, 4, 5, 6, 7]
    info = target.history(1)[0]
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    assert (info.operation, info.operation_parameters["queryId"]) == ("STREAMING UPDATE", query_id)

    # Spark died after the table's commit: the batch comes again
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)
    version = target.version()
    copy(lake, source, target, checkpoint)
    assert (target.version(), ids(target)) == (version, [1, 3, 4, 5, 6, 7])
    assert list_unlogged_files(target) == []

    # a column is added, which the query reads once it starts again; one that is dropped stops it
    ddl("a source", "ALTER TABLE t ADD COLUMNS (more STRING)")
    ddl("target", "ALTER TABLE t ADD COLUMNS (more STRING)")
    append(source, (8, "c", None, "x"))
    assert sum(copy(lake, source, target, checkpoint)) == 1
    ddl("a source", "ALTER TABLE t DROP COLUMN s")
    with pytest.raises(
        PySparkException, match=r"SourceSchemaChangedError: Version 7 .*column s was"
    ):
        copy(lake, source, target, checkpoint)


def test_rows_may_be_deleted_while_a_stream_reads_and_each_batch_is_written_once(
    lake, ddl, source, tmp_path
):
    target = ddl("target", f"CREATE TABLE t (k BIGINT GENERATED ALWAYS AS IDENTITY, {COLUMNS})")
    write = batch_writer(target)
    seen = []

    def write_twice(frame, batch_id):
        if batch_id == 0:
            delete(source, 6)
        write(frame, batch_id)
        seen.append(target.version())
        write(frame, batch_id)  # as after a restart
        assert target.version() == seen[-1]

    def stream(**options):
        reader = lake.readStream.format("lake").options(maxFilesPerTrigger=2, **options)
        query = (
            reader.load(source.uri)
            .writeStream.foreachBatch(write_twice)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    stream()
    assert ids(target) == [1, 3, 4, 5, 6]
    append(source, (9, "c", None))
    with pytest.raises(PySparkException, match=r"Version 4 .*\(DELETE\).*skipChangeCommits"):
        stream()
    stream(skipChangeCommits=True)
    rows = target.snapshot().to_arrow()
    assert sorted(rows.column("id").to_pylist()) == [1, 3, 4, 5, 6, 9]
    assert len(set(rows.column("k").to_pylist())) == 6


def test_two_queries_on_one_checkpoint_never_write_a_batch_twice(ddl):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    schema = to_spark_schema(table.snapshot().schema)

    def plan_writer():
        return lake_source(table, queryId="q").streamWriter(schema, overwrite=False)

    one, other = plan_writer(), plan_writer()
    staged = [writer.write(iter([batch((1, "x", None))])) for writer in (one, other)]
    one.commit([staged[0]], 0)
    with pytest.raises(ConcurrentTransactionException, match="q"):
        other.commit([staged[1]], 0)
    assert list_unlogged_files(table) == []

    # a batch that began later sees that it was written, and writes nothing
    again = plan_writer()
    again.commit([again.write(iter([batch((1, "x", None))]))], 0)
    assert (table.version(), ids(table), list_unlogged_files(table)) == (1, [1], [])
    assert table.snapshot().set_transactions["q"].version == 0
    complete = lake_source(table, queryId="q").streamWriter(schema, overwrite=True)
    complete.commit([complete.write(iter([batch((5, "x", None))]))], 1)
    assert ids(table) == [5]


def test_a_sink_that_does_not_know_its_query_is_refused(ddl):
    table = ddl("t", f"CREATE TABLE t ({COLUMNS})")
    sink = lake_source(table).streamWriter(
        to_spark_schema(table.snapshot().schema), overwrite=False
    )
    with pytest.raises(RequestError, match="queryId"):
        sink.commit([sink.write(iter([batch((1, "x", None))]))], 0)
    assert data_files(table) == []


def test_a_first_batch_is_repeated_as_it_was_though_the_table_moved_on(ddl, source):
    schema = to_spark_schema(source.snapshot().schema)
    stream = lake_source(source, maxFilesPerTrigger="2").streamReader(schema)
    first = stream.initialOffset()
    end = stream.latestOffset(first, stream.getDefaultReadLimit())
    planned = [partition.value for partition in stream.partitions(first, end)]
    append(source, (7, "c", None))
    later = lake_source(source, maxFilesPerTrigger="2").streamReader(schema)
    assert later.initialOffset() != first
    assert [
        partition.value for partition in later.partitions(later.initialOffset(), end)
    ] == planned


def test_a_running_stream_stops_at_any_change_of_the_metadata(ddl, source):
    schema = to_spark_schema(source.snapshot().schema)
    stream = lake_source(source, startingVersion="latest").streamReader(schema)
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    ddl("a source", "ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration' = '3 days')")
    with pytest.raises(SourceSchemaChangedError, match="Restart the query"):
        stream.latestOffset(start, ReadAllAvailable())


def test_a_stream_begins_at_the_given_version(source):
    schema = to_spark_schema(source.snapshot().schema)
    moment = source.snapshot(2).timestamp.isoformat()
    for options, version in (
        ({"startingVersion": "2"}, 2),
        ({"startingVersion": "latest"}, 4),
        ({"startingTimestamp": moment}, 2),
    ):
        first = lake_source(source, **options).streamReader(schema).initialOffset()
        assert (first["version"], first["initial"]) == (version, False)
