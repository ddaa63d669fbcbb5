"""DELETE and UPDATE by Arrow in this process: the same result as Spark's, on tables of each kind."""

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.clock import SystemClock
from engine.commands.sources import DataFrameSource
from engine.commands.sql import parse_statement
from engine.commands.writes import Append
from engine.conflicts.decide.row_access import Budget
from engine.errors import (
    ConcurrentAppendException,
    InvariantViolationError,
    MultipleSourceRowsError,
    RequestError,
    UnknownColumnError,
)
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.snapshot.change_feed import read_changes
from engine.snapshot.reader import ROW_INDEX, read_file
from engine.snapshot.snapshot import Snapshot
from engine.spark.file_writer import write_files
from engine.spark.jobs import Progress
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.snapshot_rows import SnapshotRows
from tests.shares import one_in, share

COLUMNS = (
    "id BIGINT, k INT, name STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ,"
    " flag BOOLEAN, f DOUBLE, g FLOAT, s SMALLINT, raw BINARY, inner STRUCT<a: INT, b: STRING>,"
    " tags ARRAY<STRING>"
)
ROW_COUNT = 40  # as many as range gives
ROWS = """
    SELECT id, CAST(id % 7 AS INT), IF(id % 5 = 0, NULL, concat('name ', CAST(id AS STRING))),
        CAST(id * 1.25 AS DECIMAL(10,2)), date_add(DATE '2024-01-01', CAST(id AS INT)),
        TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP_NTZ '2024-01-01 00:00:00', id % 2 = 0,
        IF(id % 9 = 0, CAST('NaN' AS DOUBLE), id / 3.0), CAST(id / 7.0 AS FLOAT), CAST(id AS SMALLINT),
        CAST('x' AS BINARY), named_struct('a', CAST(id AS INT), 'b', 'b'), array('t', NULL)
    FROM range(40)
"""
PLAIN = "'delta.enableDeletionVectors' = 'false'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"


@dataclass(frozen=True)
class Kind:
    """A kind of table: its columns, its properties, and its preparing statements."""

    name: str
    properties: str
    statements: tuple[str, ...]
    more: str = ""
    behind: str = ""


SOURCE = """(VALUES (1, 'one', 1.5, true), (2, NULL, 2.5, false), (2000, 'new', 9.25, true),
    (NULL, 'nobody', 0.0, true), (3, 'three', 3.0, NULL), (77, 'other', 7.0, false))
    AS s (id, name, price, flag)"""
INTO = f"MERGE INTO t USING {SOURCE}"
MERGES = tuple(
    INTO + text
    for text in (
        " ON t.id = s.id"
        " WHEN MATCHED AND s.flag THEN UPDATE SET name = concat(t.name, s.name), price = s.price + 1"
        " WHEN MATCHED AND s.name IS NULL THEN DELETE"
        " WHEN NOT MATCHED AND s.flag THEN INSERT (id, name, k) VALUES (s.id, s.name, 3)"
        " WHEN NOT MATCHED AND s.id < 100 THEN INSERT (id, flag, k) VALUES (s.id + 1, s.flag, 0)",
        " ON t.id = s.id AND t.k < 3"
        " WHEN MATCHED THEN UPDATE SET s = 5"
        " WHEN NOT MATCHED BY SOURCE AND t.id > 30 THEN UPDATE SET name = 'left over', f = 0"
        " WHEN NOT MATCHED BY SOURCE AND t.id > 25 THEN DELETE",
        " ON t.id > s.id AND t.id < s.id + 3 WHEN MATCHED AND s.id = 77 THEN DELETE",
        " ON t.name = s.name WHEN NOT MATCHED THEN INSERT (id, k, price) VALUES (s.id, 1, s.price)",
    )
)
INSERTS = (
    "INSERT INTO t (id, name, price, flag, k) VALUES (500, 'a', 1, true, 2), (501, NULL, 2.25, NULL, 3)",
    "INSERT INTO t (name, id, k, f, day) VALUES ('x', 9, 1, 2.5, DATE '2020-01-01')",
)
STATEMENTS = (
    "UPDATE t SET name = concat(name, '!'), price = price + 1, s = 7 WHERE id BETWEEN 3 AND 11",
    "DELETE FROM t WHERE name IS NULL AND k > 2",
    "UPDATE t SET id = id + 100, f = f * 2, flag = NOT flag, day = date_add(day, 1) WHERE k = 4",
    "DELETE FROM t WHERE f > 5 AND inner.a < 25 OR name LIKE '%8!'",
    "UPDATE t SET name = NULL, at = TIMESTAMP '2020-02-29 12:00:00', raw = NULL WHERE flag",
    "DELETE FROM t WHERE id < 0",
    "UPDATE t SET k = CASE WHEN id > 20 THEN 1 ELSE k + 1 END",
    "DELETE FROM t WHERE k IN (1, 2, NULL)",
)
KINDS = (
    Kind("vectors", VECTORS, (*STATEMENTS, *MERGES, *INSERTS)),
    Kind("files", PLAIN, (*STATEMENTS[::4], *MERGES[:2])),
    Kind(
        "tracked",
        f"{VECTORS}, 'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true'",
        (*STATEMENTS[1::4], *MERGES[:1]),
    ),
    Kind(
        "tracked files",
        f"{PLAIN}, 'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true'",
        (*STATEMENTS[::6], MERGES[1], INSERTS[0]),
        behind="PARTITIONED BY (k)",
    ),
    Kind(
        "ruled",
        f"{VECTORS}, 'delta.constraints.small' = 'id < 5000'",
        (*STATEMENTS[:3], MERGES[2], INSERTS[1]),
        more=", twice BIGINT GENERATED ALWAYS AS (id * 2)",
    ),
)


def _statement(text):
    return parse_statement(text)


def _table(place: Path) -> DeltaTable:
    return DeltaTable(open_store(str(place)))


def _rows(snapshot: Snapshot) -> list[str]:
    return sorted(map(repr, snapshot.to_arrow().to_pylist()))


def _sums(snapshot: Snapshot) -> dict[str, object]:
    """Return the sums of all live files' statistics, and the number of rows deleted by vectors."""
    adds = list(snapshot.add_files())
    stats = [json.loads(add.stats) for add in adds]
    nulls: Counter[str] = Counter()
    for file_stats in stats:
        nulls.update({name: n for name, n in file_stats["nullCount"].items() if isinstance(n, int)})
    least = [
        file_stats["minValues"]["id"]
        for file_stats in stats
        if "id" in file_stats.get("minValues", {})
    ]
    vectors = [add.deletion_vector.cardinality for add in adds if add.deletion_vector]
    return {
        "rows": sum(file_stats["numRecords"] for file_stats in stats),
        "nulls": dict(nulls),
        "least": min(least, default=None),
        "tight": {file_stats.get("tightBounds") for file_stats in stats},
        "vectors": sorted(vectors),
    }


def _row_ids(snapshot: Snapshot) -> dict[int, int] | None:
    """Return the `id` of the original rows by row id, after checking that row ids are unique."""
    if not snapshot.properties.row_tracking:
        return None
    access = SnapshotRows(snapshot, Budget(SystemClock(), 60))
    id_of_row = {}
    for add in snapshot.add_files():
        ids = access.row_ids(add)
        rows = read_file(snapshot, add, with_positions=True)
        for row in rows.to_pylist():
            id_of_row[int(ids[row[ROW_INDEX]])] = row["id"]
    assert len(id_of_row) == snapshot.row_count
    return {row_id: key for row_id, key in id_of_row.items() if row_id < ROW_COUNT}


def _changes(table: DeltaTable, version: int) -> list[str] | None:
    if not table.snapshot().properties.enable_change_data_feed:
        return None
    feed = read_changes(table, version, version).drop_columns(["_commit_timestamp"])
    return sorted(map(repr, feed.to_pylist()))


COUNTED = (
    *(
        f"numTarget{what}"
        for what in (
            "RowsInserted",
            "RowsUpdated",
            "RowsMatchedUpdated",
            "RowsNotMatchedBySourceUpdated",
            "RowsDeleted",
            "RowsCopied",
            "FilesRemoved",
            "DeletionVectorsAdded",
            "DeletionVectorsUpdated",
        )
    ),
    "numFiles",
    "numSourceRows",
    "numOutputRows",
    "numUpdatedRows",
    "numDeletedRows",
    "numCopiedRows",
    "numRemovedFiles",
    "numRemovedBytes",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
)


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", one_in(2, KINDS), ids=lambda kind: kind.name)
def test_arrow_and_spark_leave_the_same(kind: Kind, spark: SparkSession, tmp_path: Path):
    by_spark = _table(tmp_path / "spark")
    run(
        _statement(
            f"CREATE TABLE t ({COLUMNS}{kind.more}) USING DELTA {kind.behind}"
            f" TBLPROPERTIES ({kind.properties})"
        ),
        by_spark,
        None,
    )
    names = [field.name for field in by_spark.snapshot().schema if field.name != "twice"]
    run(Append(DataFrameSource(spark.sql(ROWS).toDF(*names))), by_spark, spark)
    for number, text in enumerate(share(2, kind.statements)):
        shutil.copytree(tmp_path / "spark", tmp_path / f"arrow{number}")
        by_arrow = _table(tmp_path / f"arrow{number}")
        theirs = run(_statement(text), by_spark, spark, RunOptions(in_process_bytes=0))
        ours = run(_statement(text), by_arrow, None)
        assert {name: ours.metrics.get(name) for name in COUNTED} == {
            name: theirs.metrics.get(name) for name in COUNTED
        }, text
        left, right = by_arrow.snapshot(), by_spark.snapshot()
        assert _rows(left) == _rows(right), text
        assert _sums(left) == _sums(right), text
        assert _row_ids(left) == _row_ids(right), text
        assert ours.version == theirs.version
        if ours.version is not None:
            assert _changes(by_arrow, ours.version) == _changes(by_spark, ours.version), text


class Meanwhile:
    """A second statement that commits right before the first one."""

    def __init__(self, do, text):
        self._do, self._text = do, text

    def __call__(self, progress: Progress):
        if progress.stage == "commit" and self._text:
            text, self._text = self._text, ""
            self._do(text)


@pytest.fixture
def items(do_lightly, empty_table):
    """Return a table with rows 0 to 9 of three columns, written without Spark."""
    do_lightly(
        "CREATE TABLE t (id BIGINT, name STRING, v DOUBLE) USING DELTA"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.constraints.low' = 'id < 50')"
    )
    rows = pa.RecordBatch.from_pydict({"id": list(range(10)), "name": ["a"] * 10, "v": [0.5] * 10})
    target = file_target(TableFiles(empty_table.uri, empty_table.snapshot().schema))
    txn = empty_table.start_transaction()
    txn.stage(*(add for add, _ in write_files([rows], target, 0)))
    txn.commit("WRITE", {"mode": "Append"})
    return empty_table


def test_the_progress_says_that_rows_were_found_without_spark(items, do_lightly):
    told = []
    do_lightly("DELETE FROM t WHERE id > 7", progress=lambda progress: told.append(progress.detail))
    assert "1 file holds a match, found in this process, without Spark" in told


def test_a_table_is_changed_without_spark(items, do_lightly):
    updated = do_lightly("UPDATE t SET v = v + id, name = 'b' WHERE id IN (2, 3)")
    deleted = do_lightly("DELETE FROM t WHERE id > 7")
    assert (updated.metrics["numUpdatedRows"], deleted.metrics["numDeletedRows"]) == (2, 2)
    rows = {row["id"]: row["v"] for row in items.snapshot().to_arrow().to_pylist()}
    assert rows == {0: 0.5, 1: 0.5, 2: 2.5, 3: 3.5, 4: 0.5, 5: 0.5, 6: 0.5, 7: 0.5}


def test_defaults_and_rules_hold_for_rows_that_are_written_out(do_lightly, empty_table):
    do_lightly(
        "CREATE TABLE t (id BIGINT NOT NULL, k INT DEFAULT 7, twice BIGINT GENERATED ALWAYS AS (id * 2))"
        " USING DELTA TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    do_lightly("INSERT INTO t (id) VALUES (1), (2)")
    rows = empty_table.snapshot().to_arrow().to_pylist()
    assert rows == [{"id": 1, "k": 7, "twice": 2}, {"id": 2, "k": 7, "twice": 4}]
    with pytest.raises(InvariantViolationError, match="NOT NULL of id"):
        do_lightly("INSERT INTO t (id) VALUES (NULL)")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("DELETE FROM t WHERE CAST(name AS DOUBLE) > 1", "the cast of a string to DOUBLE"),
        ("UPDATE t SET v = rand() WHERE id = 1", "the function rand"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM t)", "needs Spark"),
        ("UPDATE t SET v = 1 / (id - id) WHERE id = 1", "a division by zero"),
        ("INSERT INTO t (id) VALUES ('one')", "the cast of a string to BIGINT"),
    ],
)
def test_statements_that_arrow_runs_differently_need_spark(text, why, items, do_lightly):
    before = sorted(path.name for path in Path(items.uri).rglob("*.parquet"))
    with pytest.raises(RequestError, match="needs Spark") as refused:
        do_lightly(text, resolve=lambda _name: items)
    assert why in str(refused.value)
    assert sorted(path.name for path in Path(items.uri).rglob("*.parquet")) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INSERT INTO t (id) VALUES (x)", "no column x. Columns cannot be used here"),
        (
            "MERGE INTO t USING (VALUES (1, 2)) AS s (id, w) ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.q",
            "no column s.q. The columns are id, w.",
        ),
    ],
)
def test_statements_that_spark_also_refuses_are_not_said_to_need_spark(
    text, why, items, do_lightly
):
    with pytest.raises(UnknownColumnError) as refused:
        do_lightly(text)
    assert why in str(refused.value)


def test_a_row_that_breaks_a_rule_is_refused_and_nothing_is_left(items, do_lightly):
    before = sorted(path.name for path in Path(items.uri).rglob("*"))
    with pytest.raises(InvariantViolationError, match="id < 50"):
        do_lightly("UPDATE t SET id = id + 45")
    assert sorted(path.name for path in Path(items.uri).rglob("*")) == before


def test_rows_are_merged_without_spark(items, do_lightly):
    merged = do_lightly(
        "MERGE INTO t USING (VALUES (1, 'x'), (20, 'y'), (2, NULL)) AS s (id, name) ON t.id = s.id"
        " WHEN MATCHED AND s.name IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    )
    rows = {row["id"]: row["name"] for row in items.snapshot().to_arrow().to_pylist()}
    assert rows == {**dict.fromkeys([0, 3, 4, 5, 6, 7, 8, 9], "a"), 1: "x", 20: "y"}
    assert merged.metrics["numTargetRowsMatchedDeleted"] == 1


def test_two_source_rows_of_one_target_row_are_refused(items, do_lightly):
    with pytest.raises(MultipleSourceRowsError):
        do_lightly(
            "MERGE INTO t USING (VALUES (1, 'x'), (1, 'y')) AS s (id, name) ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET name = s.name"
        )
    assert items.version() == 1


def test_merges_of_other_rows_of_one_file_both_land(items, do_lightly):
    """Two merges that insert the same key conflict: the second one would have matched the new row."""
    merge = (
        "MERGE INTO t USING (VALUES ({key}, {value})) AS s (id, v) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    meanwhile = Meanwhile(do_lightly, merge.format(key=2, value=2.0))
    first = do_lightly(merge.format(key=1, value=1.0), progress=meanwhile)
    assert len(first.resolved) == 1
    with pytest.raises(ConcurrentAppendException):
        do_lightly(
            merge.format(key=30, value=3.0),
            progress=Meanwhile(do_lightly, merge.format(key=30, value=4.0)),
        )
    rows = {row["id"]: row["v"] for row in items.snapshot().to_arrow().to_pylist()}
    assert (rows[1], rows[2], rows[30]) == (1.0, 2.0, 4.0)


def test_files_beyond_the_limit_need_spark(items, do_lightly):
    with pytest.raises(RequestError, match="larger than 10 bytes"):
        do_lightly("DELETE FROM t WHERE id = 1", in_process_bytes=10)


def test_two_updates_of_other_rows_of_one_file_both_land(items, do_lightly):
    """Two updates of one row conflict: rows decide between statements that ran without Spark."""

    first = do_lightly(
        "UPDATE t SET v = 1 WHERE id = 1",
        progress=Meanwhile(do_lightly, "UPDATE t SET v = 2 WHERE id = 2"),
    )
    assert len(first.resolved) == 1
    with pytest.raises(ConcurrentAppendException):
        do_lightly(
            "UPDATE t SET v = 3 WHERE id = 3",
            progress=Meanwhile(do_lightly, "UPDATE t SET v = 4 WHERE id = 3 OR id = 4"),
        )
    rows = {row["id"]: row["v"] for row in items.snapshot().to_arrow().to_pylist()}
    assert (rows[1], rows[2], rows[3], rows[4]) == (1.0, 2.0, 4.0, 4.0)
