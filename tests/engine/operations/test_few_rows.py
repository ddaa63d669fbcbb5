"""Small DataFrames written by this process: the same result as from Spark's tasks."""

import json
import re
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from engine.clock import SystemClock
from engine.commands.merge import INSERT_ALL, MATCHED, NOT_MATCHED, UPDATE_ALL, Merge, MergeClause
from engine.commands.model import Append, DataFrameSource, Update
from engine.commands.sql import parse_statement
from engine.conflicts.decide.row_access import Budget
from engine.errors import EngineError, InvariantViolationError, StorageError
from engine.operations.merge import merge
from engine.operations.rows import update
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.snapshot.change_feed import read_changes
from engine.snapshot.reader import ROW_INDEX, read_file
from engine.spark import row_positions
from engine.spark.collection import FrameSize, collect_if_small, collect_rows, size_of_all
from engine.spark.write import writer
from engine.spark.write.writer import few_rows
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.snapshot_rows import SnapshotRows
from tests.shares import Run, one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COLUMNS = (
    "id BIGINT, k INT, name STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ,"
    " flag BOOLEAN, f DOUBLE, g FLOAT, s SMALLINT, b TINYINT, raw BINARY,"
    " inner STRUCT<a: INT, b: STRING>, tags ARRAY<STRING>, m MAP<STRING, DOUBLE>"
)
ROWS = """
    SELECT id, CAST(id % 7 AS INT) AS k, IF(id % 5 = 0, NULL, concat('name ', id)) AS name,
        CAST(id * 1.25 AS DECIMAL(10,2)) AS price, date_add(DATE '2024-01-01', CAST(id AS INT)) AS day,
        timestamp_micros(id * 1000001) AS at, TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' AS wall,
        id % 2 = 0 AS flag, IF(id % 9 = 0, CAST('NaN' AS DOUBLE), id / 3.0D) AS f,
        IF(id % 4 = 0, -0.0F, CAST(id / 7.0D AS FLOAT)) AS g, CAST(id AS SMALLINT) AS s,
        CAST(id AS TINYINT) AS b, CAST(CAST(id AS STRING) AS BINARY) AS raw,
        IF(id % 3 = 0, NULL, named_struct('a', CAST(id AS INT), 'b', 'b')) AS inner,
        array('t', NULL) AS tags, map('x', f) AS m
    FROM range(40)
"""
TABLES = {
    "plain": f"({COLUMNS}) USING DELTA",
    "partitioned": f"({COLUMNS}) USING DELTA PARTITIONED BY (k, flag)",
    "by floats": f"({COLUMNS}) USING DELTA PARTITIONED BY (f)",
    "mapped": f"({COLUMNS}) USING DELTA PARTITIONED BY (day)"
    " TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true')",
    "by id": f"({COLUMNS}) USING DELTA TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
    "gathered": f"({COLUMNS}) USING DELTA PARTITIONED BY (k)"
    " TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')",
    "few statistics": f"({COLUMNS}) USING DELTA"
    " TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '2')",
    "ruled": "(id BIGINT NOT NULL, k SMALLINT, name CHAR(12), price DECIMAL(12,3), s STRING,"
    " twice BIGINT GENERATED ALWAYS AS (id * 2), note STRING DEFAULT 'none') USING DELTA"
    " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    "numbered": "(id BIGINT, number BIGINT GENERATED ALWAYS AS IDENTITY, name STRING) USING DELTA",
}
GIVEN = {"ruled": ["id", "k", "name", "price", "s"], "numbered": ["name", "id"]}


def _create_table(spark, place, text):
    table = DeltaTable(open_store(str(place)))
    run(parse_statement(f"CREATE TABLE t {text}"), table, spark)
    return table


def _describe_last_version(table):
    """Return the last version's partition values and statistics, and the files' own types and rows."""
    snapshot = table.snapshot()
    files = []
    for add in snapshot.add_files():
        parquet = pq.read_table(Path(table.uri) / unquote(add.path), partitioning=None)
        files.append(
            (
                list(add.partition_values.values()),
                json.loads(add.stats or "{}"),
                [str(field.type) for field in parquet.schema],
                parquet.num_rows,
            )
        )
    rows = sorted(map(repr, snapshot.to_arrow().to_pylist()))
    return rows, sorted(_mask_names(repr(file)) for file in files)


def _mask_names(text):
    """Mask the physical names of mapped columns, which differ between tables."""
    return re.sub(r"col-[0-9a-f-]{36}", "col", text)


def _both(spark, tmp_path, text, work):
    """Return the results of `work` on two tables of a kind: by Spark's tasks, and by this process."""
    left = []
    for number, limit in enumerate((0, RunOptions().in_process_bytes)):
        table = _create_table(spark, tmp_path / str(number), text)
        try:
            work(table, RunOptions(in_process_bytes=limit))
        except EngineError as error:
            message = str(error).replace(table.uri, "the table")
            assert not list(Path(table.uri).rglob("*.parquet"))
            left.append((type(error), message))
            continue
        left.append(_describe_last_version(table))
    return left


@pytest.mark.parametrize("kind", one_in(2, TABLES))
def test_few_rows_leave_the_same_files_as_tasks(spark, tmp_path, kind):
    """Rows, statistics, partition values and the files' types are the same."""
    frame = spark.sql(ROWS).coalesce(1)
    frame = frame.select(*GIVEN[kind]) if kind in GIVEN else frame
    assert few_rows(frame) is not None

    def work(table, options):
        run(Append(DataFrameSource(frame)), table, spark, options)
        run(Append(DataFrameSource(frame.filter("id < 0"))), table, spark, options)

    tasks, here = _both(spark, tmp_path, TABLES[kind], work)
    assert tasks == here
    assert len(here[0]) == 40


BROKEN = [
    ("ruled", "id", "CAST(NULL AS BIGINT)"),
    ("ruled", "k", "70000"),
    ("ruled", "name", "'longer than twelve'"),
    ("ruled", "twice", "3"),
    ("plain", "k", "1099511627776"),
    ("plain", "k", "'seven'"),
    ("numbered", "number", "7"),
]


@pytest.mark.parametrize("broken", one_in(2, BROKEN), ids=" ".join)
def test_rows_that_break_a_rule_are_refused_in_the_same_words(spark, tmp_path, broken):
    kind, column, value = broken
    frame = spark.sql(ROWS)
    frame = frame.select(*GIVEN[kind]) if kind in GIVEN else frame
    bad = frame.withColumn(column, F.expr(value))

    def work(table, options):
        run(Append(DataFrameSource(bad)), table, spark, options)

    tasks, here = _both(spark, tmp_path, TABLES[kind], work)
    assert tasks == here
    assert isinstance(here[0], type)


VALUES = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(-5, 5),
        "name": st.none() | st.text(st.characters(codec="utf-8"), max_size=8),
        "f": st.none() | st.floats(),
        "raw": st.none() | st.binary(max_size=4),
        "tags": st.none() | st.lists(st.none() | st.text("ab\x00é", max_size=2), max_size=3),
    }
)
SCHEMA = pa.schema(
    {
        "k": pa.int32(),
        "name": pa.string(),
        "f": pa.float64(),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
    }
)
LAYOUTS = ("", " PARTITIONED BY (k)", " PARTITIONED BY (name)", " PARTITIONED BY (f, k)")


@settings(
    max_examples=6 if Run.is_hunt else 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(VALUES, min_size=1, max_size=12), layout=st.sampled_from(LAYOUTS))
@example(
    rows=[dict.fromkeys(SCHEMA.names) | {"name": name} for name in ("\0", "a/../b", "x" * 300)],
    layout=" PARTITIONED BY (name)",
)
def test_any_values_leave_the_same_files_as_tasks(spark, tmp_path_factory, rows, layout):
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA)).coalesce(1)
    assert few_rows(frame) is not None
    text = f"(k INT, name STRING, f DOUBLE, raw BINARY, tags ARRAY<STRING>) USING DELTA{layout}"

    def work(table, options):
        run(Append(DataFrameSource(frame)), table, spark, options)

    tasks, here = _both(spark, tmp_path_factory.mktemp("any"), text, work)
    assert tasks == here


def test_few_rows_of_a_statement_are_written_without_a_task_of_python(spark, tmp_path, monkeypatch):
    """If the plan does not show that rows are few, tasks write them."""
    table = _create_table(
        spark, tmp_path, TABLES["numbered"].replace(" GENERATED ALWAYS AS IDENTITY", "")
    )
    tasks = []
    original = writer._run
    monkeypatch.setattr(
        writer, "_run", lambda *given, **named: tasks.append(1) or original(*given, **named)
    )
    few = spark.range(100).selectExpr("id", "id AS number", "'x' AS name")
    run(Append(DataFrameSource(few)), table, spark)
    assert (tasks, table.snapshot().row_count) == ([], 100)
    run(
        Append(DataFrameSource(few.repartition(3).withColumn("id", F.explode(F.array("id"))))),
        table,
        spark,
    )
    run(
        Append(
            DataFrameSource(spark.range(20_000).selectExpr("id", "id AS number", "'x' AS name"))
        ),
        table,
        spark,
    )
    assert (len(tasks), table.snapshot().row_count) == (2, 20_200)


@pytest.fixture
def small_results(spark):
    """Limit the results that Spark sends to its driver to a few kilobytes."""
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "4k")
    yield
    conf.set("spark.driver.maxResultSize", before)


@pytest.mark.usefixtures("small_results")
def test_few_rows_that_spark_does_not_send_are_left_to_tasks(spark, tmp_path):
    """The limit on results sent to the driver does not fail the write."""
    few = spark.range(2_000).selectExpr("id", "uuid() AS v").coalesce(1)
    assert collect_rows(few) is None
    table = _create_table(spark, tmp_path, "(id BIGINT, v STRING) USING DELTA")
    run(Append(DataFrameSource(few)), table, spark)
    assert table.snapshot().row_count == 2_000


def test_an_error_of_rows_is_no_limit_of_them(spark):
    with pytest.raises(PySparkException, match="no luck"):
        collect_rows(spark.sql("SELECT raise_error('no luck')"))


LARGE = "IF(id = 7, repeat('x', 5000), 'y')"
SIZED = {
    "texts": f"{LARGE} AS `a.b`",
    "bytes": f"CAST({LARGE} AS BINARY) AS a",
    "inside": f"CAST(named_struct('t', array({LARGE})) AS STRUCT<t: ARRAY<STRING>>) AS a",
    "maps": f"map(id, {LARGE}) AS a",
    "null structs": f"CAST(IF(id < 5, NULL, struct({LARGE})) AS STRUCT<t: STRING>) AS a",
    "alike": f"{LARGE} AS ID",
}


@pytest.mark.parametrize("kind", one_in(2, SIZED))
def test_rows_come_where_each_has_its_share_of_the_bytes(spark, kind):
    """If one row is larger, none is sent."""
    frame = spark.range(10).selectExpr("id", SIZED[kind])
    assert collect_if_small(frame, 10, 50_000) is None
    rows = collect_if_small(frame, 10, 100_000)
    assert (
        rows.to_pydict()
        == frame.toDF("0", "1").toArrow().rename_columns(rows.column_names).to_pydict()
    )
    if kind != "alike":
        size = size_of_all(frame)
        assert (size.rows, 5_000 < size.bytes_of() < 6_000) == (10, True)


def test_rows_of_numbers_are_known_to_be_small_before_they_are_computed(spark):
    frame = spark.range(10).selectExpr("id", "named_struct('a', 1, 'b', 2.5D) AS s")
    assert collect_if_small(frame, 10, 10 * 48).num_rows == 10
    assert collect_if_small(frame, 10, 10 * 48 - 1) is None
    assert size_of_all(frame) == FrameSize(10, {"id": 160, "s": 320})


def test_few_rows_with_a_large_one_are_left_to_tasks(spark, tmp_path, monkeypatch):
    """The driver does not load rows that only tasks have room for; rows of one partition stay together."""
    tasks = []
    original = writer._run
    monkeypatch.setattr(
        writer, "_run", lambda *given, **named: tasks.append(1) or original(*given, **named)
    )
    table = _create_table(
        spark, tmp_path, "(id BIGINT, p INT, v STRING) USING DELTA PARTITIONED BY (p)"
    )
    large = "IF(id = 7, repeat('x', 10000), 'y') AS v"
    few = spark.range(0, 10_000, 1, 2).selectExpr("id", "CAST(id % 3 AS INT) AS p", large)
    run(Append(DataFrameSource(few)), table, spark)
    assert (tasks, table.snapshot().row_count, table.snapshot().file_count) == ([1], 10_000, 3)


def test_a_large_source_of_few_rows_is_merged_without_the_driver(spark, tmp_path, monkeypatch):
    taken = []
    original = merge.collect_rows
    monkeypatch.setattr(merge, "collect_rows", lambda frame: taken.append(1) or original(frame))
    table = _create_table(spark, tmp_path, "(id BIGINT, v STRING) USING DELTA")
    source = DataFrameSource(spark.range(20).selectExpr("id", "repeat('x', 100) AS v"))
    clauses = (MergeClause(MATCHED, UPDATE_ALL), MergeClause(NOT_MATCHED, INSERT_ALL))
    command = Merge(source=source, on="target.id = source.id", clauses=clauses)
    run(command, table, spark)
    monkeypatch.setattr(merge, "MOST_BYTES", 2_000)
    run(command, table, spark)
    assert (len(taken), table.snapshot().row_count) == (1, 20)


def test_a_few_rows_that_fail_half_way_leave_no_file(spark, tmp_path, monkeypatch):
    """A full disk ends the write with the engine's error, and earlier files are removed."""
    table = _create_table(spark, tmp_path, "(id BIGINT, p BIGINT) USING DELTA PARTITIONED BY (p)")
    original = writer.write_files

    def full(*given):
        for number, written in enumerate(original(*given)):
            if number == 2:
                raise OSError(28, "No space left on device")
            yield written

    monkeypatch.setattr(writer, "write_files", full)
    few = spark.range(5).selectExpr("id", "id AS p")
    with pytest.raises(StorageError, match="No space left on device"):
        run(Append(DataFrameSource(few)), table, spark)
    assert not list(Path(table.uri).rglob("*.parquet"))


UPDATED = {
    "vectors": "",
    "change feed": ", 'delta.enableChangeDataFeed' = 'true'",
    "row tracking": ", 'delta.enableRowTracking' = 'true'",
    "mapped": ", 'delta.columnMapping.mode' = 'name'",
}
SETS = {"k": "k + 1", "price": "price * 2", "name": "concat(name, '!')", "f": "f / 2"}


IN_EVERY_RUN = {("vectors", 2), ("change feed", 10_000), ("row tracking", 10_000), ("mapped", 2)}


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        pytest.param(*of, marks=[pytest.mark.stress] * (of not in IN_EVERY_RUN))
        for of in product(UPDATED, (2, 10_000))
    ],
)
def test_the_new_images_of_few_rows_equal_those_that_tasks_write(
    spark, tmp_path, monkeypatch, kind, most
):
    """An UPDATE of few rows in ten files finds and writes them in one pass, or in two if there are many."""
    looks, left = [], []
    original = update.mark_rows
    monkeypatch.setattr(row_positions, "MOST_TAKEN", most)
    monkeypatch.setattr(
        update, "mark_rows", lambda *given, **named: looks.append(1) or original(*given, **named)
    )
    text = f"({COLUMNS}, twice INT GENERATED ALWAYS AS (k * 2)) USING DELTA PARTITIONED BY (flag)"
    text += f" TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'{UPDATED[kind]})"
    for number in range(2):
        table = _create_table(spark, tmp_path / str(number), text)
        frame = spark.sql(ROWS).repartitionByRange(5, "id").withColumn("twice", F.expr("k * 2"))
        in_order = frame.sortWithinPartitions("id")
        run(Append(DataFrameSource(in_order)), table, spark, RunOptions(in_process_bytes=0))
        # files are larger than Arrow alone reads here, and few of their rows match
        command = Update(assignments=SETS, where="id % 4 = 1 OR id < 10")
        result = run(command, table, spark, RunOptions(in_process_bytes=number))
        metrics = {
            name: count
            for name, count in result.metrics.items()
            if not name.endswith(("Ms", "Bytes", "AddedFiles"))
        }
        changes = read_changes(table, 2).to_pylist() if kind == "change feed" else []
        left.append((metrics, _rows(_read_row_ids(table)), _rows(changes, "_commit_timestamp")))
    assert left[0] == left[1]
    assert left[0][0]["numUpdatedRows"] == 17
    assert len(looks) == (1 if kind != "change feed" and most == 10_000 else 2)


def _read_row_ids(table):
    """Return rows, with their row ids if the table tracks them."""
    snapshot = table.snapshot()
    if not snapshot.properties.row_tracking:
        return snapshot.to_arrow().to_pylist()
    access = SnapshotRows(snapshot, Budget(SystemClock(), 60))
    rows = []
    for add in snapshot.add_files():
        ids = access.row_ids(add)
        found = read_file(snapshot, add, with_positions=True).to_pylist()
        rows += [row | {"row id": int(ids[row.pop(ROW_INDEX)])} for row in found]
    return rows


def _rows(rows, *without):
    return sorted(repr({k: v for k, v in row.items() if k not in without}) for row in rows)


def test_an_update_whose_new_rows_break_a_rule_changes_nothing(spark, tmp_path):
    """The error names the rule as it does when tasks find the row."""
    text = "(id BIGINT, k INT) USING DELTA TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    messages = []
    for number in range(2):
        table = _create_table(spark, tmp_path / str(number), text)
        run(parse_statement("ALTER TABLE t ADD CONSTRAINT small CHECK (k < 30)"), table, spark)
        frame = spark.range(0, 20, 1, 4).selectExpr("id", "CAST(id AS INT) AS k")
        run(Append(DataFrameSource(frame)), table, spark, RunOptions(in_process_bytes=0))
        files = sorted(Path(table.uri).rglob("*"))
        command = Update(assignments={"k": "k + 11"}, where="id >= 18")
        with pytest.raises(InvariantViolationError) as refused:
            run(command, table, spark, RunOptions(in_process_bytes=number))
        messages.append(str(refused.value).replace("k = 29", "").replace("k = 30", ""))
        assert sorted(Path(table.uri).rglob("*")) == files
    assert messages[0] == messages[1]


def test_a_partition_may_be_called_as_a_column_is_in_the_files(spark, tmp_path):
    """Names of mapped columns are independent of the names in the files."""
    text = "(a INT, p INT) USING DELTA PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    left = []
    for number in range(2):
        table = _create_table(spark, tmp_path / str(number), text)
        for statement in (
            "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE t RENAME COLUMN a TO b",
            "ALTER TABLE t RENAME COLUMN p TO a",
        ):
            run(parse_statement(statement), table, spark)
        frame = spark.range(20).selectExpr("CAST(id AS INT) AS b", "CAST(id % 2 AS INT) AS a")
        options = RunOptions(in_process_bytes=number)
        run(Append(DataFrameSource(frame)), table, spark, options)
        run(Update(assignments={"b": "b + 100"}, where="b % 5 = 0"), table, spark, options)
        left.append(_rows(table.snapshot().to_arrow().to_pylist()))
    assert left[0] == left[1]
    assert len(left[0]) == 20
