"""Every store call fails once, in every way: the table is as before or as after, never in between.

And the answer is right: an error that does not say "unknown" means that nothing was written, and a
second try under the same id leaves the change applied once.
"""

import uuid
from collections.abc import Callable

import pytest

from engine.errors import CommitOutcomeUnknownError, EngineError
from engine.log.commits import list_versions
from engine.table import DeltaTable
from engine.transaction.log_tail import find_own_commit
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from tests.engine.transaction.tables import open_failing
from tests.shares import one_in, pairs, share
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run, state_of
from tests.stateful.history import SCHEMA

MODES = ("before", "unknown, not written", "unknown, written")
ROWS = tuple(("a", x) for x in range(6))


def _append(number: int, *xs: int) -> c.Append:
    return c.Append(number, tuple(("a", x) for x in xs))


def _do(table: DeltaTable, command: c.Command) -> None:
    running = run(command, table, stats=True)
    running.txn.commit(running.operation)


SCENARIOS: dict[str, tuple[c.Command, c.Command | None]] = {
    "append": (_append(3, 9), None),
    "delete": (c.Delete(3, c.Range(0, 2)), None),
    "append after an append": (_append(3, 9), _append(4, 8)),
    "delete after a delete of the same file": (
        c.Delete(3, c.Range(0, 2)),
        c.Delete(4, c.Range(4, 5)),
    ),
    "update after an append": (c.Update(3, c.Range(0, 2), 7), _append(4, 5)),
    "delete after optimize": (c.Delete(3, c.Range(0, 2)), c.Optimize(4, (0, 1))),
    "optimize after a delete": (c.Optimize(3, (0, 1)), c.Delete(4, c.Range(4, 5))),
    "merge after a delete": (c.Merge(3, (1, 8)), c.Delete(4, c.Range(4, 5))),
}


class Winner(TransactionObserver):
    """A store that lets another command commit right before the first put."""

    def __init__(self, act: Callable[[], None] | None) -> None:
        self._act = act

    def before_commit(self, _txn: ObservedTransaction, _attempt_version: int) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


def _table() -> DeltaTable:
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "3"}
    table = DeltaTable.create(f"memory://faults/{uuid.uuid4()}", SCHEMA, properties=properties)
    _do(table, c.Append(1, ROWS))
    _do(table, c.Append(2, ROWS))
    return table


def _attempt(
    name: str, fail_at: int, mode: str, times: int = 1
) -> tuple[DeltaTable, EngineError | None, int]:
    """Run a scenario over a store whose n-th call fails; return the error and the number of failures."""
    command, other = SCENARIOS[name]
    table = _table()
    winner = DeltaTable.open(table.uri)
    before, handle_error = state_of(table.snapshot()), None
    handle, store = open_failing(table, fail_at=fail_at, mode=mode, times=times)
    txn_id = str(uuid.uuid4())
    try:
        running = run(command, handle, stats=True)
        running.txn.txn_id = txn_id
        running.txn.observe(Winner(None if other is None else lambda: _do(winner, other)))
        running.txn.commit(running.operation)
    except EngineError as error:
        handle_error = error
    _check(table, txn_id, (command, other), before, handle_error)
    return table, handle_error, store.fired


def _check(
    table: DeltaTable,
    txn_id: str,
    commands: tuple[c.Command, c.Command | None],
    before: c.State,
    error: EngineError | None,
) -> None:
    command, other = commands
    fresh = DeltaTable.open(table.uri)
    versions = list_versions(fresh.store)
    assert versions == list(range(len(versions)))
    landed = find_own_commit(fresh.store, txn_id, 0, fresh.version()) is not None
    if error is None:
        assert landed
    elif not isinstance(error, CommitOutcomeUnknownError):
        assert not landed, f"reported {error!r}, yet committed"
    others = len(versions) - 3 - landed
    base = other.apply(before) if other is not None and others else before
    assert state_of(fresh.snapshot()) == (command.apply(base) if landed else base)
    if not landed:
        again = run(command, fresh, stats=True)
        again.txn.commit(again.operation)
        assert state_of(DeltaTable.open(table.uri).snapshot()) == command.apply(base)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "mode"), pairs(share(3, SCENARIOS), MODES))
def test_a_transaction_survives_each_call_of_its_store_failing_once(name: str, mode: str):
    fail_at, errors = 0, 0
    while True:
        fail_at += 1
        _, error, fired = _attempt(name, fail_at, mode)
        errors += error is not None
        if not fired:
            break
    assert fail_at > 8
    assert error is None
    assert errors


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", one_in(3, reversed(MODES)))
def test_a_store_that_stays_down_never_gets_a_wrong_answer(mode: str):
    name = "delete after a delete of the same file"
    fail_at = 0
    while True:
        fail_at += 1
        _, error, fired = _attempt(name, fail_at, mode, times=10_000)
        if not fired:
            break
        assert error is not None or fail_at > 20
    assert fail_at > 8
