"""Reads from a store that fails at any call: a complete answer or an error, never a partial answer."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from engine.errors import (
    EngineError,
    LogCleanedError,
    VersionNotFoundError,
)
from engine.log.cleanup import clean_log
from engine.snapshot.change_feed import read_changes
from engine.snapshot.post_commit import checkpoint
from engine.storage.base import Store
from engine.table import DeltaTable
from tests.engine.faults.states import check_whole, state_of
from tests.engine.faults.stores import FaultyStore, faults
from tests.engine.transaction.tables import FakeClock
from tests.shares import one_in
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run as run_on_arrow
from tests.stateful.history import SCHEMA

LATER = 1_900_000_000_000
V2 = {"delta.checkpointPolicy": "v2", "delta.feature.v2Checkpoint": "supported"}


def _do(table: DeltaTable, command: c.Command) -> int:
    running = run_on_arrow(command, table, stats=True)
    return running.txn.commit(running.operation)


@pytest.fixture(params=["classic", "v2"])
def store(request: pytest.FixtureRequest) -> Store:
    """Return a table with inserts, deletion vectors, a compaction, a checkpoint and commits after it."""
    kind = V2 if request.param == "v2" else {}
    properties = {
        "delta.checkpointInterval": "4",
        "delta.enableChangeDataFeed": "true",
        "delta.enableInCommitTimestamps": "true",
        **kind,
    }
    table = DeltaTable.create(f"memory://reads/{uuid.uuid4()}", SCHEMA, properties=properties)
    _do(table, c.Append(1, tuple(("a", x) for x in range(6))))
    _do(table, c.Delete(2, c.Range(0, 2)))
    for number in range(3, 7):
        _do(table, c.Append(number, (("a", number),)))
    return table.store


def _open(table: DeltaTable) -> Any:
    return state_of(table.snapshot())


def _earlier(table: DeltaTable) -> Any:
    return state_of(table.snapshot(2))


def _times(table: DeltaTable) -> Any:
    times = [table.snapshot(version).timestamp_ms for version in (1, 6)]
    return times, table.snapshot(timestamp=times[0]).version


def _history(table: DeltaTable) -> Any:
    return [(commit.version, commit.operation, commit.timestamp) for commit in table.history()]


def _changes(table: DeltaTable) -> Any:
    return sorted(map(repr, read_changes(table, 1).to_pylist()))


def _rows(table: DeltaTable) -> Any:
    snapshot = table.snapshot()
    rows = snapshot.to_arrow(condition="x > 1 AND x < 5")
    return sorted(map(repr, rows.to_pylist())), snapshot.row_count


READS = {"open": _open, "earlier": _earlier, "times": _times, "history": _history}
READS |= {"changes": _changes, "rows": _rows}


@pytest.mark.parametrize("name", one_in(2, READS))
def test_a_read_is_right_or_fails_and_is_right_when_repeated(store: Store, name: str):
    read = READS[name]
    whole = FaultyStore(store)
    expected = read(DeltaTable(whole))
    errors = []
    for fail_at, mode in faults(whole.calls):
        handle = DeltaTable(FaultyStore(store, fail_at=fail_at, mode=mode))
        try:
            assert read(handle) == expected
        except EngineError as error:
            errors.append(error)
        assert read(handle) == expected
    assert errors


def test_a_refresh_is_right_or_fails_and_is_right_when_repeated(store: Store):
    snapshot = DeltaTable(store).snapshot(3)
    expected = state_of(DeltaTable(store).snapshot())
    whole = FaultyStore(store)
    assert (
        state_of(DeltaTable(whole, snapshot=_reopen_over(whole, snapshot)).snapshot()) == expected
    )
    for fail_at, mode in faults(whole.calls):
        failing = FaultyStore(store, fail_at=fail_at, mode=mode)
        handle = DeltaTable(failing, snapshot=_reopen_over(failing, snapshot))
        with suppress(EngineError):
            assert state_of(handle.snapshot()) == expected
        assert state_of(handle.snapshot()) == expected


def _reopen_over(store: Store, snapshot: Any) -> Any:
    return type(snapshot)(store, snapshot.state, snapshot.allowed_roots)


def _clean_log(store: Store) -> None:
    """Remove everything before the newest version and keep only its checkpoint."""
    checkpoint(DeltaTable(store).snapshot(), 0)
    assert clean_log(store, 0, LATER)


def _stage(command: c.Command, table: DeltaTable) -> Callable[[], int]:
    running = run_on_arrow(command, table, stats=True)
    return lambda: running.txn.commit(running.operation)


COMMANDS = {
    "append": c.Append(9, (("a", 9),)),
    "delete": c.Delete(9, c.Range(2, 3)),
    "update": c.Update(9, c.Range(2, 3), 7),
    "merge": c.Merge(9, (2, 30)),
    "optimize": c.Optimize(9, (0, 1)),
}


@pytest.mark.parametrize("name", one_in(2, COMMANDS))
def test_a_log_cleaned_between_read_and_commit_is_noticed(store: Store, name: str):
    table = DeltaTable(store, clock=FakeClock())
    commit = _stage(COMMANDS[name], table)
    for number in (20, 21):
        _do(DeltaTable(store), c.Append(number, (("a", number),)))
    _clean_log(store)
    before = state_of(DeltaTable.open(store.root).snapshot())
    with pytest.raises(LogCleanedError):
        commit()
    assert state_of(DeltaTable.open(store.root).snapshot()) == before
    _stage(COMMANDS[name], DeltaTable.open(store.root))()
    assert state_of(DeltaTable.open(store.root).snapshot()) != before
    check_whole(store)


def test_a_log_cleaned_up_to_the_version_read_stops_no_reader(store: Store):
    commit = _stage(COMMANDS["delete"], DeltaTable(store, clock=FakeClock()))
    _clean_log(store)
    assert commit() == 7
    check_whole(store)


def test_reads_of_cleaned_versions_are_refused_by_name(store: Store):
    table = DeltaTable.open(store.root)
    old = table.snapshot(1)
    _clean_log(store)
    assert old.to_arrow().num_rows == 6
    for read in (lambda: table.snapshot(1), lambda: read_changes(table, 1)):
        with pytest.raises(VersionNotFoundError):
            read()
    assert [commit.version for commit in table.history()] == [6]
