"""Two concurrent operations: the second runs while the first is about to commit."""

import pytest

from engine.conflict_facts import RemedyKind
from engine.errors import ConcurrentAppendException, ConflictError, MetadataChangedException
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.operations.conftest import IN_PROCESS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


class _Meanwhile(TransactionObserver):
    """An action that runs once, after everything is staged."""

    def __init__(self, act) -> None:
        self._act = act

    def staged(self, txn) -> None:  # noqa: ARG002
        act, self._act = self._act, lambda: None
        act()


@pytest.fixture
def meanwhile(do, spark, empty_table):
    """Return `meanwhile(first, second)`, in which `first` loses the race for its version to `second`."""

    def race(first, second, **options):
        other = DeltaTable(empty_table.store)
        return do(first, observer=_Meanwhile(lambda: do(second, table=other)), **options)

    return race


@pytest.fixture
def table(do, empty_table):
    do("CREATE TABLE t (id BIGINT, p STRING) USING DELTA")
    do("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')", in_process_bytes=IN_PROCESS)
    do("INSERT INTO t VALUES (5, 'e'), (6, 'f')", in_process_bytes=IN_PROCESS)
    return empty_table


def _ids(table):
    return sorted(table.snapshot().to_arrow()["id"].to_pylist())


def test_deletes_of_different_rows_of_one_file_both_land(meanwhile, table, rows_elsewhere):
    result = meanwhile("DELETE FROM t WHERE id = 1", "DELETE FROM t WHERE id = 2")
    rows = rows_elsewhere(table)
    assert [row[0] for row in rows["engine"]] == [3, 4, 5, 6]
    assert rows["engine"] == rows["duckdb"] == rows["deltalake"]
    assert len(result.resolved) == 1


def test_updates_of_the_same_row_conflict(meanwhile, table):
    with pytest.raises(ConflictError):
        meanwhile("UPDATE t SET p = 'x' WHERE id = 1", "UPDATE t SET p = 'y' WHERE id = 1")
    assert table.snapshot().row_count == 6


def test_a_retry_runs_on_the_rows_that_the_winner_left(meanwhile, table):
    result = meanwhile(
        "UPDATE t SET p = concat(p, 'x') WHERE id = 1",
        "UPDATE t SET p = 'y' WHERE id = 1",
        retries=1,
    )
    rows = {row["id"]: row["p"] for row in table.snapshot().to_arrow().to_pylist()}
    assert rows[1] == "yx"
    assert result.version == 4


def test_a_delete_is_carried_over_a_compaction(meanwhile, table, rows_elsewhere):
    meanwhile("DELETE FROM t WHERE id IN (2, 6)", "OPTIMIZE t")
    rows = rows_elsewhere(table)
    assert [row[0] for row in rows["engine"]] == [1, 3, 4, 5]
    assert rows["engine"] == rows["duckdb"] == rows["deltalake"]


def test_a_compaction_commits_over_a_delete(meanwhile, table, rows_elsewhere):
    meanwhile("OPTIMIZE t", "DELETE FROM t WHERE id IN (2, 6)")
    rows = rows_elsewhere(table)
    assert [row[0] for row in rows["engine"]] == [1, 3, 4, 5]
    assert rows["engine"] == rows["duckdb"] == rows["deltalake"]


def test_a_merge_conflicts_with_rows_added_meanwhile(meanwhile, do, table):
    do("ALTER TABLE t SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')")
    upsert = (
        "MERGE INTO t USING (VALUES (7, 'g')) AS s (id, p) ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    with pytest.raises(ConcurrentAppendException):
        meanwhile(upsert, "INSERT INTO t VALUES (7, 'other')")
    assert _ids(table) == [1, 2, 3, 4, 5, 6, 7]


def test_a_merge_does_not_mind_rows_out_of_its_sources_reach(meanwhile, do, table):
    do("ALTER TABLE t SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')")
    meanwhile(
        "MERGE INTO t USING (VALUES (1, 'z')) AS s (id, p) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET p = s.p",
        "INSERT INTO t VALUES (99, 'far')",
    )
    assert _ids(table) == [1, 2, 3, 4, 5, 6, 99]


@pytest.fixture
def day_table(do, empty_table):
    do("CREATE TABLE t (id BIGINT, day STRING) USING DELTA PARTITIONED BY (day)")
    do("INSERT INTO t VALUES (1, 'd1'), (2, 'd2'), (3, 'd3')", in_process_bytes=IN_PROCESS)
    return empty_table


@pytest.mark.parametrize(
    ("source", "and_day", "passes"),
    [
        ("(1, 'd1')", "", True),
        ("(1, 'd1'), (3, 'd3')", "", False),
        ("(1, 'd1'), (3, 'd3')", " AND t.day IN ('d1', 'd3')", True),
    ],
)
def test_a_merge_reads_the_partitions_between_its_sources_bounds(
    meanwhile, day_table, source, and_day, passes
):
    """Another write changes d2, which lies between the bounds: MERGE reads it, unless literals exclude it."""
    merge = (
        f"MERGE INTO t USING (VALUES {source}) AS s (id, day) ON t.day = s.day{and_day}"
        " AND t.id = s.id WHEN MATCHED THEN DELETE"
    )
    if passes:
        meanwhile(merge, "UPDATE t SET id = 9 WHERE day = 'd2'")
        return
    with pytest.raises(ConflictError) as raised:
        meanwhile(merge, "UPDATE t SET id = 9 WHERE day = 'd2'")
    [remedy] = [
        remedy
        for remedy in raised.value.conflict.remedies
        if remedy.kind is RemedyKind.PARTITION_PREDICATE
    ]
    assert "`day = '…'`" in remedy.action
    assert "between the lowest and the highest source value" in remedy.reason


@pytest.mark.parametrize("other", ["MERGE", "INSERT"])
def test_two_writers_never_give_one_number_twice(meanwhile, do, empty_table, other):
    do("CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, p STRING) USING DELTA")
    merge = (
        "MERGE INTO t USING (VALUES ('{}')) AS s (p) ON t.p = s.p"
        " WHEN NOT MATCHED THEN INSERT (p) VALUES (s.p)"
    )
    second = merge.format("b") if other == "MERGE" else "INSERT INTO t (p) VALUES ('b')"
    with pytest.raises(MetadataChangedException):
        meanwhile(merge.format("a"), second)
    meanwhile(merge.format("a"), second.replace("b", "c"), retries=1)
    rows = empty_table.snapshot().to_arrow().to_pylist()
    assert {row["p"]: row["id"] for row in rows} == {"b": 1, "c": 2, "a": 3}


def test_a_constraint_conflicts_with_the_append_that_breaks_it(meanwhile, table):
    with pytest.raises(ConflictError):
        meanwhile(
            "ALTER TABLE t ADD CONSTRAINT c CHECK (id < 50)", "INSERT INTO t VALUES (99, 'far')"
        )


def test_staged_files_of_the_loser_are_removed(meanwhile, table, tmp_path):
    with pytest.raises(ConflictError):
        meanwhile("UPDATE t SET p = 'x' WHERE id = 1", "UPDATE t SET p = 'y' WHERE id = 1")
    named = {
        add.path
        for version in range(table.version() + 1)
        for add in table.snapshot(version).add_files()
    }
    present = {p.name for p in tmp_path.rglob("*.parquet")}
    assert present == named
