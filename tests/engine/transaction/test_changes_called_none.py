"""Winners that change rows but declare `dataChange` false."""

import uuid

import msgspec
import pytest

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile, RemoveFile
from engine.errors import ConcurrentAppendException
from engine.log.paths import commit_path
from engine.table import DeltaTable
from tests.stateful import commands as c
from tests.stateful.arrow_engine import rows_of, run
from tests.stateful.history import SCHEMA

ROWS = tuple(("a", x) for x in range(6))
TRACKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def _table() -> DeltaTable:
    table = DeltaTable.create(f"memory://called/{uuid.uuid4()}", SCHEMA, properties=TRACKED)
    running = run(c.Append(1, ROWS), table, stats=False)
    running.txn.commit("WRITE")
    return table


def _clear_data_change(action: Action) -> Action:
    """Return the actions as written, with row ids, but marked as no change."""
    if not isinstance(action, AddFile | RemoveFile):
        return action
    if isinstance(action, AddFile):
        action = msgspec.structs.replace(action, base_row_id=6, default_row_commit_version=2)
    return msgspec.structs.replace(action, data_change=False)


def _write_commit(table: DeltaTable, operation: str, command: c.Command) -> None:
    staged = run(command, table, stats=False).staged
    info = CommitInfo(operation=operation, is_blind_append=False, read_version=1)
    lines = [encode(action) for action in (info, *map(_clear_data_change, staged))]
    table.store.put(commit_path(2), "\n".join(lines).encode())


@pytest.mark.parametrize("operation", ["UPDATE", "MERGE", "WRITE"])
def test_an_update_marked_as_no_change_counts_as_a_change(operation: str):
    """Its row ids trace the row that it changed, which the current transaction would delete in its old form."""
    table = _table()
    delete = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _write_commit(table, operation, c.Update(3, c.Range(0, 1), 4, rewrite=True))
    with pytest.raises(ConcurrentAppendException):
        delete.txn.commit("DELETE")
    assert sorted(x for _, x, *_ in rows_of(table.snapshot()).values()) == [1, 2, 3, 4, 4, 5]


def test_a_compaction_is_still_followed_by_row_ids():
    table = _table()
    delete = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _write_commit(table, "OPTIMIZE", c.Optimize(3, (0,), sort=True))
    delete.txn.commit("DELETE")
    assert sorted(x for _, x, *_ in rows_of(table.snapshot()).values()) == [2, 3, 4, 5]
