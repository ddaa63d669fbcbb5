"""Dry runs of destructive operations: their reports, without Spark and without a change."""

from pathlib import Path

import pyarrow as pa
import pytest

from engine.actions.statistics import loosen_bounds
from engine.commands.model import Optimize, Overwrite, RowsSource, Vacuum
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import MultipleSourceRowsError, RequestError
from engine.operations.run_options import track_operation
from engine.operations.write_rows import removal, replace_vector
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.table import DeltaTable

ROWS = RowsSource(("id", "p"), (("1", "'a'"),))
PROPERTIES = (
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
)
MERGE = (
    "MERGE INTO t USING (VALUES (1)) AS s (id) ON t.id = s.id AND t.p = 'a'"
    " WHEN MATCHED THEN DELETE"
)


@pytest.fixture
def table(do_lightly, empty_table):
    """Return three files: 1 and 2 in a, 3 (masked) and 4 in b, 5 in a."""
    do_lightly(f"CREATE TABLE t (id BIGINT, p STRING) USING DELTA PARTITIONED BY (p) {PROPERTIES}")
    for ids, part in (([1, 2], "a"), ([3, 4], "b"), ([5], "a")):
        _append(empty_table, ids, part)
    _mask_first_row(empty_table, "b")
    return empty_table


def _append(table, ids, part):
    snapshot = table.snapshot()
    files = TableFiles(table.uri, snapshot.schema, ("p",), snapshot.properties)
    batch = pa.RecordBatch.from_arrays([pa.array(ids), pa.array([part] * len(ids))], ["id", "p"])
    txn = table.start_transaction()
    txn.stage(*[add for add, _ in write_files([batch], file_target(files), 0)])
    txn.commit("WRITE")


def _mask_first_row(table, part):
    add = next(a for a in table.snapshot().add_files() if part in a.partition_values.values())
    vector = write_deletion_vector(table.store, [0])
    txn = table.start_transaction()
    txn.stage(removal(add), replace_vector(add, vector, loosen_bounds(add.stats, 2)))
    txn.commit("DELETE")


def _bytes(table, *parts):
    adds = table.snapshot().add_files()
    return sum(a.size for a in adds if set(parts) & set(a.partition_values.values()))


PLANS = [
    ("DELETE FROM t WHERE p = 'a'", 2, 3, "a"),
    ("DELETE FROM t WHERE id = 4", 1, 1, "b"),
    ("DELETE FROM t", 3, 4, "ab"),
    ("UPDATE t SET id = 0 WHERE id > 4", 1, 1, None),
    ("UPDATE t SET id = 0", 3, 4, "ab"),
    (MERGE, 1, 1, None),
    ("TRUNCATE TABLE t", 3, 4, "ab"),
    (Overwrite(ROWS), 3, 4, "ab"),
    (Overwrite(ROWS, replace_where="p = 'a'"), 2, 3, "a"),
    (Overwrite(ROWS, dynamic_partitions=True), 3, 4, "ab"),
    ("OPTIMIZE t", 3, 4, "ab"),
    ("OPTIMIZE t WHERE p = 'a'", 2, 3, "a"),
    ("OPTIMIZE t ZORDER BY (id)", 3, 4, "ab"),
    ("REORG TABLE t APPLY (PURGE)", 1, 1, "b"),
    ("CREATE OR REPLACE TABLE t (n INT) USING DELTA", 3, 4, "ab"),
]


@pytest.mark.parametrize(
    ("statement", "files", "rows", "parts"), PLANS, ids=map(str, range(len(PLANS)))
)
def test_a_dry_run_counts_files_rows_and_bytes_and_leaves_no_trace(
    do_lightly, table, statement, files, rows, parts
):
    before = _list_files(table)
    plan = do_lightly(statement, dry_run=True).plan
    assert (plan.file_count, plan.rows) == (files, rows)
    assert parts is None or plan.size_bytes == _bytes(table, *parts)
    assert len(plan.as_dict()["files"]) == files
    assert _list_files(table) == before


COUNTED = [
    ("DELETE FROM t WHERE id = 1", 1, 1, "1 row in 1 of 3 files would be deleted."),
    ("DELETE FROM t WHERE id > 1", 3, 3, "3 rows in 3 of 3 files would be deleted."),
    ("DELETE FROM t WHERE p = 'a' OR id = 3", 2, 3, "3 rows in 2 of 3 files would be deleted."),
    ("DELETE FROM t WHERE id % 9 = 8", 0, 0, "0 rows in 0 of 3 files would be deleted."),
    ("UPDATE t SET p = 'c' WHERE id = 2", 1, 1, "1 row in 1 of 3 files would be updated."),
    (
        "MERGE INTO t USING (VALUES (1, 'x'), (4, 'x'), (9, 'x')) AS s (id, p) ON t.id = s.id"
        " WHEN MATCHED AND t.id = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET p = s.p"
        " WHEN NOT MATCHED THEN INSERT *",
        *(2, 2),
        "1 row updated, 1 row deleted, 1 row inserted, from 3 source rows; 2 of 3 files would change.",
    ),
    (
        "MERGE INTO t USING other AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        *(2, 2),
        "0 rows updated, 2 rows deleted, 0 rows inserted, from 2 source rows;"
        " 2 of 3 files would change.",
    ),
]


@pytest.mark.parametrize(
    ("statement", "files", "rows", "said"), COUNTED, ids=map(str, range(len(COUNTED)))
)
def test_a_dry_run_counts_the_rows_that_would_change(
    do_lightly, table, tmp_path, statement, files, rows, said
):
    other = DeltaTable.create(
        str(tmp_path / "other"), table.snapshot().schema, partition_columns=("p",)
    )
    _append(other, [2, 5], "z")
    before = _list_files(table)
    plan = do_lightly(statement, dry_run=True, resolve={"other": other}.__getitem__).plan
    assert (plan.file_count, plan.rows, plan.is_counted) == (files, rows, True)
    assert plan.summary == said
    assert sum(file.rows for file in plan.files) == rows
    assert _list_files(table) == before


@pytest.mark.parametrize("statement", [statement for statement, *_ in COUNTED])
def test_a_dry_run_of_too_large_files_says_that_it_did_not_count(
    do_lightly, table, tmp_path, statement
):
    other = DeltaTable.create(
        str(tmp_path / "other"), table.snapshot().schema, partition_columns=("p",)
    )
    _append(other, [2, 5], "z")
    resolve = {"other": other}.__getitem__
    plan = do_lightly(statement, dry_run=True, count_bytes=0, resolve=resolve).plan
    if plan.file_count:
        assert not plan.is_counted
        assert "were not counted" in plan.summary


def test_a_merge_that_would_fail_by_its_source_fails_as_a_dry_run(do_lightly, table):
    statement = (
        "MERGE INTO t USING (VALUES (1, 'x'), (1, 'y')) AS s (id, p) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET p = s.p"
    )
    with pytest.raises(MultipleSourceRowsError):
        do_lightly(statement, dry_run=True)


def test_a_dry_run_of_restore_lists_restored_and_removed_files(do_lightly, table):
    plan = do_lightly("RESTORE TABLE t TO VERSION AS OF 1", dry_run=True).plan
    assert (plan.file_count, plan.rows) == (2, 2)
    assert [file.reason for file in plan.files] == ["removed", "removed"]
    assert plan.facts["version"] == 1
    back = do_lightly("RESTORE TABLE t TO VERSION AS OF 2", dry_run=True).plan
    assert [file.reason for file in back.files] == ["removed", "removed", "brought back"]


def test_a_vacuum_says_which_files_would_go_and_which_versions_with_them(do_lightly, table):
    do_lightly("TRUNCATE TABLE t")
    plan = do_lightly(Vacuum(retention_hours=0, override_retention=True), dry_run=True).plan
    assert plan.file_count == 3
    assert plan.size_bytes > 0
    assert plan.facts["versions_lost"] == [[1, 4]]


def test_a_column_that_would_be_dropped_touches_no_file(do_lightly, table):
    before = _list_files(table)
    plan = do_lightly("ALTER TABLE t DROP COLUMN id", dry_run=True).plan
    assert plan.file_count == 0
    assert "1 columns" in plan.summary
    assert _list_files(table) == before


@pytest.mark.parametrize(
    ("clustering", "statement", "remedy"),
    [
        (" CLUSTER BY (id)", "OPTIMIZE t ZORDER BY (id)", "Remove ZORDER BY"),
        ("", "OPTIMIZE t FULL", "Remove FULL"),
    ],
)
def test_an_order_that_the_table_does_not_have_is_refused(
    do_lightly, empty_table, clustering, statement, remedy
):
    do_lightly(f"CREATE TABLE t (id BIGINT) USING DELTA{clustering}")
    with pytest.raises(RequestError, match="clustered") as refused:
        do_lightly(statement, dry_run=True)
    assert refused.value.remedy.startswith(remedy)


@pytest.mark.parametrize("command", [Optimize(full=True), "OPTIMIZE t"])
def test_nothing_to_do_is_reported(do_lightly, empty_table, command):
    do_lightly("CREATE TABLE t (id BIGINT) USING DELTA CLUSTER BY (id)")
    plan = do_lightly(command, dry_run=True).plan
    assert "nothing to do" in plan.summary


def test_a_dry_run_names_the_writers_it_would_meet(do_lightly, table):
    with track_operation(table.uri, 2, "Update"), track_operation(table.uri, 1, "Append"):
        plan = do_lightly("DELETE FROM t", dry_run=True).plan
        told = do_lightly("OPTIMIZE t", dry_run=True, writers_elsewhere=["MERGE INTO t"]).plan
    assert plan.running_writers == ("Append", "Update")
    assert told.as_dict()["running_writers"] == ["MERGE INTO t"]
    assert do_lightly("DELETE FROM t", dry_run=True).plan.running_writers == ()


def _list_files(table):
    return sorted(p.as_posix() for p in Path(table.uri).rglob("*"))
