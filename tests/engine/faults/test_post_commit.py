"""Faults at every call after a commit, in every mode: the commit and the log stay intact.

After the commit come checksums, checkpoints of both kinds, log compactions and the cleaning of the log.
"""

import logging
import uuid
from pathlib import Path

import pytest

from engine.clock import Clock
from engine.errors import EngineError
from engine.log.compaction import write_compaction
from engine.snapshot.post_commit import checkpoint
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.faults.states import check_whole, commits_of, state_of
from tests.engine.faults.stores import FULL_DISK, FaultyStore, copy_store, faults
from tests.engine.transaction.tables import FakeClock
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run as run_on_arrow
from tests.stateful.history import SCHEMA

NOW = 1_900_000_000_000  # long after the files of these tests, so that everything expired may be cleaned
COMMIT = "create _delta_log/00000000000000000004.json"
V2 = {"delta.checkpointPolicy": "v2", "delta.feature.v2Checkpoint": "supported"}
KINDS = {
    "classic": {"delta.checkpointInterval": "2"},
    "v2": {"delta.checkpointInterval": "2", **V2},
    "compaction": {"delta.checkpointInterval": "100", "delta.logCompactionInterval": "2"},
}


def _commit(store: Store, clock: Clock, txn_id: str, number: int) -> None:
    table = DeltaTable(store, clock=clock)
    running = run_on_arrow(c.Append(number, (("a", number),)), table, stats=True)
    running.txn.txn_id = txn_id
    running.txn.commit(running.operation)


def _create_store(store: Store, kind: str) -> Store:
    """Create four versions, such that the next commit has every kind of post-commit work."""
    DeltaTable.create(store.root, SCHEMA, properties=KINDS[kind])
    for number in range(1, 4):
        _commit(store, FakeClock(), "made", number)
    return store


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
def test_post_commit_work_never_fails_a_commit(kind: str):
    made = _create_store(MemoryStore(f"memory://after/{uuid.uuid4()}"), kind)
    store = FaultyStore(copy_store(made, f"{made.root}-whole"))
    _commit(store, FakeClock(ms=NOW), "mine", 4)
    landed = next(n for n, what in enumerate(store.calls) if what == COMMIT) + 1
    expected = state_of(DeltaTable.open(store.root).snapshot())
    after = [fault for fault in faults(store.calls) if fault[0] > landed + 2]
    assert len(after) > 5
    for number, (fail_at, mode) in enumerate(after):
        table = copy_store(made, f"{made.root}-{number}")
        failing = FaultyStore(table, fail_at=fail_at, mode=mode)
        _commit(failing, FakeClock(ms=NOW), "mine", 4)
        assert failing.fired
        assert state_of(DeltaTable.open(table.root).snapshot()) == expected
        assert len(commits_of(table, "mine")) == 1
        _commit(table, FakeClock(ms=NOW), "next", 5)
        check_whole(table)


def _write_checkpoint(store: Store) -> None:
    checkpoint(DeltaTable(store).snapshot(), NOW)


def _write_compaction(store: Store) -> None:
    write_compaction(store, 3, 3)


@pytest.mark.parametrize(
    ("kind", "act"),
    [("classic", _write_checkpoint), ("v2", _write_checkpoint), ("compaction", _write_compaction)],
)
def test_maintenance_requested_after_a_commit_is_done_completely_or_not_at_all(kind: str, act):
    made = _create_store(MemoryStore(f"memory://after/{uuid.uuid4()}"), kind)
    expected = state_of(DeltaTable.open(made.root).snapshot())
    store = FaultyStore(copy_store(made, f"{made.root}-whole"))
    act(store)
    errors = []
    for number, (fail_at, mode) in enumerate(faults(store.calls)):
        table = copy_store(made, f"{made.root}-{number}")
        try:
            act(FaultyStore(table, fail_at=fail_at, mode=mode))
            errors.append(None)
        except EngineError as error:
            errors.append(error)
        assert state_of(DeltaTable.open(table.root).snapshot()) == expected
        act(table)
        check_whole(table)
    assert any(errors)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["classic", "v2", "compaction"])
def test_a_disk_that_is_full_at_any_write_leaves_the_old_state_or_the_new(
    kind: str, tmp_path: Path
):
    whole = FaultyStore(_create_store(LocalStore(tmp_path / "whole"), kind))
    before = state_of(DeltaTable.open(whole.root).snapshot())
    _commit(whole, FakeClock(), "mine", 4)
    after = state_of(DeltaTable.open(whole.root).snapshot())
    writes = [n for n, what in enumerate(whole.calls, 1) if what.startswith(("create", "put"))]
    assert len(writes) >= 4
    outcomes = []
    for fail_at in writes:
        table = _create_store(LocalStore(tmp_path / str(fail_at)), kind)
        failing = FaultyStore(table, fail_at=fail_at, mode=FULL_DISK)
        try:
            _commit(failing, FakeClock(), "mine", 4)
            outcomes.append("landed")
        except EngineError as error:
            outcomes.append(str(error))
        assert failing.fired
        landed = bool(commits_of(table, "mine"))
        assert landed == (outcomes[-1] == "landed")
        assert state_of(DeltaTable.open(table.root).snapshot()) == (after if landed else before)
        check_whole(table)
        if not landed:
            _commit(table, FakeClock(), "mine", 4)
        assert state_of(DeltaTable.open(table.root).snapshot()) == after
    assert any("EFBIG" in outcome for outcome in outcomes)
    assert "landed" in outcomes
