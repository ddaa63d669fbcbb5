"""Files that a commit wrote, as opposed to files that it restated or refers to."""

import pytest

from engine.actions.files import AddFile, DeletionVectorDescriptor, RemoveFile
from engine.actions.written_files import file_changes
from engine.errors import ConflictError
from engine.transaction.observer import TransactionObserver, count_staged_bytes
from tests.engine.transaction.test_decision import ROWS, _do, _table
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run

VECTOR = DeletionVectorDescriptor(
    storage_type="i", path_or_inline_dv="", size_in_bytes=4, cardinality=1
)


def _add(path: str, size: int = 10, vector: DeletionVectorDescriptor | None = None) -> AddFile:
    return AddFile(
        path=path,
        partition_values={},
        size=size,
        modification_time=0,
        data_change=True,
        deletion_vector=vector,
    )


def _remove(path: str, size: int | None = 10) -> RemoveFile:
    return RemoveFile(path=path, data_change=True, size=size)


@pytest.mark.parametrize(
    ("operation", "actions", "written", "added", "removed", "restated"),
    [
        ("WRITE", [_add("a"), _add("b", 5)], 15, 15, 0, 0),
        (None, [_add("a"), _remove("b", 7)], 10, 10, 7, 0),
        ("DELETE", [_remove("a"), _add("a", vector=VECTOR)], 0, 0, 0, 1),
        ("UPDATE", [_remove("a"), _add("a", vector=VECTOR), _add("b", 3)], 3, 3, 0, 1),
        ("OPTIMIZE", [_remove("a", None), _add("b", 3)], 3, 3, 0, 0),
        ("RESTORE", [_add("a"), _remove("b", 4)], 0, 10, 4, 0),
        ("CONVERT", [_add("a")], 0, 10, 0, 0),
        ("ROW TRACKING BACKFILL", [_add("a")], 0, 0, 0, 1),
        ("CLONE", [_add("file:/lake/orders/a")], 0, 10, 0, 0),
        ("CLONE", [_add("/lake/orders/a")], 0, 10, 0, 0),
        ("CLONE", [_add("part=x/a")], 10, 10, 0, 0),
    ],
)
def test_only_new_files_are_written(operation, actions, written, added, removed, restated):
    changes = file_changes(operation, actions)
    assert (changes.bytes_written, changes.bytes_added) == (written, added)
    assert (changes.bytes_removed, len(changes.restated)) == (removed, restated)


class _Wasted(TransactionObserver):
    def __init__(self) -> None:
        self.bytes: int | None = None

    def failed(self, txn, error) -> None:  # noqa: ARG002
        self.bytes = count_staged_bytes(txn)


@pytest.mark.parametrize(
    ("command", "writes"),
    [(c.Delete(2, c.Range(0, 3)), 0), (c.Update(2, c.Range(0, 3), x=9), 1), (c.Restore(2, 1), 0)],
    ids=["by vector", "new file", "brought back"],
)
def test_an_aborted_write_wasted_the_files_that_it_wrote_and_no_others(command, writes):
    table = _table(ROWS)
    if isinstance(command, c.Restore):
        _do(table, c.Truncate(7))
    running, wasted = run(command, table, stats=True), _Wasted()
    running.txn.observe(wasted)
    same_rows = c.Update(3, c.Range(0, 3), x=9)
    _do(table, c.Append(3, (("a", 1),)) if isinstance(command, c.Restore) else same_rows)
    with pytest.raises(ConflictError):
        running.txn.commit(running.operation)
    new = [a for a in running.txn.actions if isinstance(a, AddFile) and a.deletion_vector is None]
    assert wasted.bytes == sum(add.size for add in new[:writes])
    assert (wasted.bytes > 0) is bool(writes)
