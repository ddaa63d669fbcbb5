"""The change feed across a replacement of the table: removed rows appear as they were."""

import uuid
from collections.abc import Callable

import pytest

from engine.errors import RequestError
from engine.log.paths import commit_path
from engine.operations.run import run
from engine.snapshot.change_feed import read_changes
from engine.snapshot.post_commit import checkpoint
from engine.storage.uri import open_store
from engine.table import DeltaTable

FEED = "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode'"
REPLACED = 2
OLD = [(1, "a"), (2, "b")]


@pytest.fixture
def replace_table() -> Callable[..., DeltaTable]:
    """Replace a table of (i, s) with the rows (1, a) and (2, b) by an empty table of other columns."""

    def replace(columns: str, mode: str = "none", partitions: str = "", i: str = "BIGINT"):
        table = DeltaTable(open_store(f"memory://{uuid.uuid4()}"))
        made = f"TABLE t ({{}}) USING DELTA {{}} TBLPROPERTIES ({FEED} = '{mode}')"
        run("CREATE " + made.format(f"i {i}, s STRING", partitions), table)
        run("INSERT INTO t (i, s) VALUES (1, 'a'), (2, 'b')", table)
        run("CREATE OR REPLACE " + made.format(columns, ""), table)
        return table

    return replace


def _read_deleted(table: DeltaTable) -> list[tuple[object, ...]]:
    rows = read_changes(table, REPLACED).to_pylist()
    assert {row["_change_type"] for row in rows} == {"delete"}
    names = table.snapshot().schema.names
    return sorted(tuple(row[name] for name in names) for row in rows)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_columns_of_the_same_names_keep_their_values(replace_table, mode: str):
    """Mapped columns have other names in files since, and may have the id of another column."""
    assert _read_deleted(replace_table("i BIGINT, s STRING", mode)) == OLD
    assert _read_deleted(replace_table("s STRING, I BIGINT", mode)) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_new_columns_are_null_and_wider_ones_wider(replace_table, mode: str):
    table = replace_table("s STRING, n INT, i BIGINT", mode, i="INT")
    assert _read_deleted(table) == [("a", None, 1), ("b", None, 2)]
    assert _read_deleted(replace_table("other STRING", mode)) == [(None,), (None,)]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_values_of_partitions_that_the_table_no_longer_has_are_reported(replace_table, mode: str):
    assert _read_deleted(replace_table("i BIGINT, s STRING", mode, "PARTITIONED BY (s)")) == OLD


def test_a_column_that_keeps_its_name_in_files_only_continues(replace_table):
    """RESTORE reverts a name, and thereby the files written since."""
    table = replace_table("i BIGINT, s STRING", "name")
    for statement in (
        "ALTER TABLE t RENAME COLUMN s TO u",
        "ALTER TABLE t ADD COLUMN s BIGINT",
        "INSERT INTO t (i, u, s) VALUES (3, 'c', 9)",
        f"RESTORE TABLE t TO VERSION AS OF {REPLACED}",
    ):
        run(statement, table)
    rows = read_changes(table, table.version()).to_pylist()
    assert [(row["i"], row["s"], row["_change_type"]) for row in rows] == [(3, "c", "delete")]


def test_values_that_do_not_fit_the_new_type_are_refused(replace_table):
    with pytest.raises(RequestError, match="The column s has a different type"):
        read_changes(replace_table("i BIGINT, s INT", "name"), REPLACED)


def test_replaced_rows_are_not_guessed_once_the_log_has_forgotten_them(replace_table):
    table = replace_table("i BIGINT, s STRING", "name")
    checkpoint(table.snapshot(), table.clock.now_ms())
    for version in range(REPLACED):
        table.store.delete(commit_path(version))
    with pytest.raises(RequestError, match="removed rows of version 1"):
        read_changes(table, REPLACED)
