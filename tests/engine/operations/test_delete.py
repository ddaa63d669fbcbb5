# ruff: noqa: S608 - statements are what is tested
import json

import pytest

from engine.errors import AppendOnlyError
from tests.engine.operations.conftest import IN_PROCESS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

VALUES = "VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'a', NULL), (4, NULL, 4.5), (5, 'b', 5.5)"
LAYOUTS = (
    "",
    "PARTITIONED BY (p)",
    "CLUSTER BY (id)",
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
)


def _create_table(do, layout):
    do(f"CREATE TABLE t (id BIGINT, p STRING, v DOUBLE) USING DELTA {layout}")
    do(f"INSERT INTO t {VALUES}", in_process_bytes=IN_PROCESS)
    do("INSERT INTO t VALUES (6, 'c', 6.5), (7, 'c', NULL)", in_process_bytes=IN_PROCESS)


@pytest.mark.parametrize(
    ("layout", "where", "left"),
    [
        *[(layout, "v > 2 AND id <> 5 OR p IS NULL", {1, 3, 5, 7}) for layout in LAYOUTS],
        ("", "p = 'a'", {2, 4, 5, 6, 7}),
        ("PARTITIONED BY (p)", "p = 'a' OR p IS NULL", {2, 5, 6, 7}),
    ],
)
def test_delete_removes_exactly_the_matching_rows(
    do, empty_table, rows_elsewhere, layout, where, left
):
    _create_table(do, layout)
    result = do(f"DELETE FROM t WHERE {where}")
    rows = rows_elsewhere(empty_table)
    assert {row[0] for row in rows["engine"]} == left
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"]
    assert result.metrics["numDeletedRows"] == 7 - len(left)


@pytest.mark.parametrize(
    "where",
    [
        "id < 9223372036854775808",
        "NOT (id >= 9223372036854775808)",
        "-9223372036854775808.5 < id",
        "NOT id BETWEEN 9223372036854775808 AND 9223372036854775809",
    ],
)
def test_null_is_below_no_number_however_large(do, empty_table, where):
    do("CREATE TABLE t (id BIGINT, k INT) USING DELTA")
    do("INSERT INTO t VALUES (1, 1), (NULL, 2)", in_process_bytes=IN_PROCESS)
    do(f"DELETE FROM t WHERE {where}")
    assert empty_table.snapshot().to_arrow()["k"].to_pylist() == [2]


def test_a_second_delete_extends_the_vector(do, empty_table):
    _create_table(do, "")
    do("DELETE FROM t WHERE id = 1")
    result = do("DELETE FROM t WHERE id = 2")
    assert result.metrics["numDeletionVectorsUpdated"] == 1
    vectors = [add.deletion_vector for add in empty_table.snapshot().add_files()]
    assert [vector.cardinality for vector in vectors if vector] == [2]
    assert sorted(empty_table.snapshot().to_arrow()["id"].to_pylist()) == [3, 4, 5, 6, 7]


def test_a_masked_file_has_loose_bounds_and_its_physical_row_count(do, empty_table):
    _create_table(do, "")
    do("DELETE FROM t WHERE id = 1")
    masked = next(add for add in empty_table.snapshot().add_files() if add.deletion_vector)
    stats = json.loads(masked.stats)
    assert stats["tightBounds"] is False
    assert stats["numRecords"] == 5


def test_a_partition_condition_reads_no_data(do, do_lightly, empty_table):
    _create_table(do, "PARTITIONED BY (p)")
    result = do_lightly("DELETE FROM t WHERE p = 'b'")
    assert result.metrics["numRemovedFiles"] == 1
    assert result.metrics["numDeletedRows"] == 2


def test_a_delete_that_matches_nothing_makes_no_commit(do, empty_table):
    _create_table(do, "")
    result = do("DELETE FROM t WHERE id = 99")
    assert result.version is None
    assert empty_table.version() == 2


def test_a_dry_run_counts_the_rows_it_would_read_and_writes_nothing(do, do_lightly, empty_table):
    _create_table(do, "")
    plan = do_lightly("DELETE FROM t WHERE id = 6", dry_run=True).plan.as_dict()
    assert plan["file_count"] == 1
    assert empty_table.version() == 2


def test_an_append_only_table_refuses(do):
    _create_table(do, "TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(AppendOnlyError):
        do("DELETE FROM t WHERE id = 1")


def test_rewriting_with_a_change_feed_writes_the_deleted_rows(do, empty_table):
    _create_table(
        do,
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false',"
        " 'delta.enableChangeDataFeed' = 'true')",
    )
    result = do("DELETE FROM t WHERE id = 1")
    assert result.metrics["numAddedChangeFiles"] == 1
    assert result.metrics["numCopiedRows"] == 4
