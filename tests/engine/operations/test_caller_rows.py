"""Rows of the calling program as the source of a statement: Arrow and Spark give the same result."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from engine.commands.sources import ArrowSource
from engine.errors import RequestError, SchemaMismatchError
from engine.operations.named_tables import UnknownNameError
from engine.operations.run_options import NeedsSparkError
from engine.schema.write_errors import ColumnCountError, NotNullViolatedError

COLUMNS = "id BIGINT, name STRING, v DOUBLE, at TIMESTAMP, day DATE, price DECIMAL(10,2), tags ARRAY<STRING>"
FIRST = pa.table(
    {
        "ID": pa.array([1, 2, 3], pa.int32()),
        "name": pa.array(["a", "b", None]).dictionary_encode(),
        "v": pa.array([1, 2, None], pa.uint8()),
        "at": pa.array([datetime(2026, 1, 2, tzinfo=UTC), None, None], pa.timestamp("s", tz="UTC")),
        "day": [None, date(2026, 1, 2), None],
        "price": [Decimal("1.50"), None, Decimal("-2.25")],
        "tags": pa.array([["x", None], [], None], pa.large_list(pa.string())),
    }
)
INSERT = "INSERT INTO t BY NAME SELECT * FROM fresh"
UPSERT = (
    "MERGE INTO t USING fresh ON t.id = fresh.id WHEN MATCHED AND fresh.v < 0 THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET name = fresh.name, v = t.v + fresh.v"
    " WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (fresh.id, fresh.name, fresh.v)"
)
CHANGES = pd.DataFrame({"id": [1, 2, 9], "name": ["A", "gone", "new"], "v": [10, -1, 90]})


def _rows(table):
    rows = table.snapshot().to_arrow().to_pylist()
    return {row["id"]: tuple(row.values())[1:] for row in rows}


def _run_changes(perform, table):
    perform(f"CREATE TABLE t ({COLUMNS}) USING DELTA")
    perform(INSERT, sources={"fresh": FIRST})
    result = perform(UPSERT, sources={"Fresh": CHANGES})
    names = ("Updated", "Deleted", "Inserted")
    assert [result.metrics[f"numTargetRows{name}"] for name in names] == [1, 1, 1]
    assert _rows(table) == {
        1: ("A", 11.0, datetime(2026, 1, 2, tzinfo=UTC), None, Decimal("1.50"), ["x", None]),
        3: (None, None, None, None, Decimal("-2.25"), None),
        9: ("new", 90.0, None, None, None, None),
    }


def test_rows_of_a_program_are_inserted_and_merged_without_spark(do_lightly, empty_table):
    _run_changes(do_lightly, empty_table)


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_spark_accepts_the_same_rows(do, empty_table):
    _run_changes(do, empty_table)
    do("INSERT INTO t BY NAME SELECT * FROM s", sources={"s": pa.table({"id": ["41", "42"]})})
    assert {41, 42} <= _rows(empty_table).keys()


@pytest.fixture
def pairs(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT NOT NULL, v STRING) USING DELTA")
    return empty_table


@pytest.mark.parametrize(
    "given",
    [
        [{"id": 1, "v": "a"}, {"id": 2}],
        [{"id": 2}, {"v": "a", "id": 1}],
        pa.RecordBatch.from_pydict({"id": [1, 2], "v": ["a", None]}),
        pd.DataFrame({"id": [1, 2], "v": ["a", None]}),
        pd.DataFrame({"id": [0, 1, 2], "v": ["b", "a", None]}).query("id > 0"),
        {"id": [1, 2], "v": ["a", None]},
        pa.chunked_array([[{"id": 1, "v": "a"}], [{"id": 2, "v": None}]]),
    ],
    ids=[
        "list",
        "list whose first row lacks a column",
        "batch",
        "pandas",
        "chosen by pandas",
        "columns",
        "chunks",
    ],
)
def test_anything_that_arrow_converts_to_rows_is_accepted(do_lightly, pairs, given):
    do_lightly("INSERT INTO t TABLE s", sources={"s": given})
    assert _rows(pairs) == {1: ("a",), 2: (None,)}


def test_an_index_of_pandas_is_a_column_if_it_has_a_name(do_lightly, pairs):
    named = pd.DataFrame({"v": ["a", None]}, index=pd.Index([1, 2], name="id"))
    do_lightly(INSERT, sources={"fresh": named})
    assert _rows(pairs) == {1: ("a",), 2: (None,)}


def test_no_rows_add_nothing(do_lightly, pairs):
    empty = pa.table({"id": pa.array([], pa.int64())})
    result = do_lightly(INSERT, sources={"fresh": empty})
    assert (result.message, pairs.version()) == ("The source has no rows: nothing was added.", 0)
    merge = "MERGE INTO t USING fresh ON t.id = fresh.id WHEN MATCHED THEN DELETE"
    assert do_lightly(merge, sources={"fresh": empty}).metrics["numSourceRows"] == 0
    assert pairs.version() == 0


REFUSED = {
    "another name": (
        INSERT,
        {"other": FIRST},
        UnknownNameError,
        "the name given to them in sources",
    ),
    "some columns": (
        "INSERT INTO t BY NAME SELECT id FROM s",
        {"s": FIRST},
        RequestError,
        "as a whole",
    ),
    "some rows": (
        "INSERT INTO t SELECT * FROM s WHERE id > 1",
        {"s": FIRST},
        RequestError,
        "as a whole",
    ),
    "a join": (
        "INSERT INTO t SELECT s.* FROM s JOIN t ON s.id = t.id",
        {"s": FIRST},
        RequestError,
        "as a whole",
    ),
    "a subquery": (
        "DELETE FROM t WHERE id IN (SELECT id FROM s)",
        {"s": FIRST},
        RequestError,
        "as a whole",
    ),
    "more columns": (INSERT, {"fresh": [{"id": 1, "w": 2}]}, SchemaMismatchError, "the column w"),
    "fewer columns": (
        "INSERT INTO t TABLE s",
        {"s": [{"id": 1}]},
        ColumnCountError,
        "no value for v",
    ),
    "no rows at all": (INSERT, {"fresh": 5}, RequestError, "not a table"),
    "no columns": (INSERT, {"fresh": pa.table({})}, RequestError, "have no columns"),
    "an empty list": (INSERT, {"fresh": []}, RequestError, "columns and no rows"),
    "rows that are none": (INSERT, {"fresh": [(1, "a")]}, RequestError, "not a table"),
    "one name twice": (
        INSERT,
        {"fresh": pa.table({"id": [1], "ID": [2]})},
        RequestError,
        "two columns called",
    ),
    "a type of none": (
        INSERT,
        {"fresh": pa.table({"id": pa.array([1], pa.uint64())})},
        RequestError,
        "uint64",
    ),
    "bytes of no text": (
        INSERT,
        {"fresh": pa.table({"v": pa.array([b"\xff"]).view(pa.string())})},
        RequestError,
        "Invalid UTF8",
    ),
    "nanoseconds": (
        INSERT,
        {"fresh": pa.table({"v": pa.array([1], pa.timestamp("ns"))})},
        RequestError,
        "The column v of the rows fresh does not fit",
    ),
    "a null": (
        INSERT,
        {"fresh": pa.table({"id": [None], "v": ["a"]})},
        NotNullViolatedError,
        "NOT NULL of id",
    ),
    "many rows": (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        {"s": pa.table({"id": range(100_001)})},
        NeedsSparkError,
        "more than 100,000 rows",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_do_not_fit_are_refused_and_add_nothing(do_lightly, pairs, name):
    statement, sources, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        do_lightly(statement, sources=sources)
    assert pairs.version() == 0


def test_given_rows_are_no_part_of_a_request():
    source = ArrowSource(FIRST, "fresh")
    source.validate()
    assert source.sql() == "SELECT * FROM fresh"
    with pytest.raises(RequestError, match="exist only in the calling program"):
        source.as_json()
