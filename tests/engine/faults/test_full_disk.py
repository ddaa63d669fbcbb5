"""Small statements on a full disk: run in this process, they fail like any other write."""

from pathlib import Path

import pytest

from engine.commands.sql import parse_statement
from engine.errors import StorageError
from engine.operations.run import run
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from tests.engine.faults.stores import room_for


def _do(table: DeltaTable, statement: str) -> None:
    run(parse_statement(statement), table, None)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    made = DeltaTable(LocalStore(tmp_path / "t"))
    _do(made, "CREATE TABLE t (id BIGINT, name STRING)")
    _do(made, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return made


@pytest.mark.parametrize("size_bytes", [0, 3, 100])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (3, 'c')",
        "UPDATE t SET name = 'c' WHERE id = 1",
        "MERGE INTO t USING (VALUES (1, 'c')) AS s (id, name) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET *",
    ],
)
def test_a_full_disk_is_reported_as_such_and_no_file_stays(
    table: DeltaTable, statement: str, size_bytes: int
):
    before = {file.path for file in table.store.list_all()}
    with room_for(size_bytes), pytest.raises(StorageError, match=r"File too large \(EFBIG\)"):
        _do(table, statement)
    assert {file.path for file in table.store.list_all()} == before
    assert table.version() == 1
    _do(table, statement)
    assert table.version() == 2
