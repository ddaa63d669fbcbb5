"""Concurrent changes of metadata: the second may find its change already made."""

import threading
import uuid

import pytest

from engine.errors import ConflictError, MetadataChangedException
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from tests.stateful.history import SCHEMA


class _Meeting(TransactionObserver):
    """A barrier that holds every commit until `writers` transactions have reached theirs."""

    def __init__(self, writers: int) -> None:
        self._barrier = threading.Barrier(writers, timeout=60)

    def staged(self, _txn: ObservedTransaction) -> None:
        self._barrier.wait()


def _run_at_once(statements: list[str]) -> tuple[DeltaTable, list[OperationResult | ConflictError]]:
    uri = f"memory://alters/{uuid.uuid4()}"
    table = DeltaTable.create(uri, SCHEMA)
    meeting, ends = _Meeting(len(statements)), []

    def change(statement: str) -> None:
        try:
            ends.append(run(statement, DeltaTable(table.store), observer=meeting))
        except ConflictError as error:
            ends.append(error)

    threads = [threading.Thread(target=change, args=(text,)) for text in statements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return DeltaTable(table.store), ends


@pytest.mark.parametrize(
    "statement",
    [
        "COMMENT ON TABLE t IS 'orders'",
        "ALTER TABLE t SET TBLPROPERTIES ('note.a' = '1')",
        "ALTER TABLE t ALTER COLUMN x COMMENT 'a number'",
    ],
)
def test_five_equal_changes_at_once_make_one_commit_and_all_succeed(statement: str):
    table, ends = _run_at_once([statement] * 5)
    assert [type(end).__name__ for end in ends] == ["OperationResult"] * 5
    assert table.version() == 1
    versions = [end.version for end in ends if isinstance(end, OperationResult)]
    assert sorted(versions, key=str) == [1, None, None, None, None]


def test_a_change_to_another_value_is_aborted():
    statement = "ALTER TABLE t SET TBLPROPERTIES ('note.a' = '{}')"
    table, ends = _run_at_once([statement.format(value) for value in "12"])
    lost = [end for end in ends if isinstance(end, ConflictError)]
    assert [type(error) for error in lost] == [MetadataChangedException]
    assert table.version() == 1
