"""Replaced tables: handles, snapshots and transactions that outlive their table.

The replacement may be another table, with older or younger files and more or fewer versions, or an
earlier state restored from a backup and written to since. Survivors read the present table, and
commit nothing that they began before.
"""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from engine.errors import EngineError
from engine.snapshot.snapshot import Snapshot
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, run
from tests.stateful.generator import iter_steps, setup_of
from tests.stateful.history import Played, Setup, begin, create, forget, go_on
from tests.stateful.judge import check
from tests.stateful.record import Record, check_state
from tests.stateful.surroundings import properties_of
from tests.stateful.weather import FakeClock, ForgetfulStore

HOUR_MS = 3_600_000
SEEDS, STRESS_CHUNKS, TURNS = 10, 100, 3
LEFT_OPEN = (
    c.Append(901, (("a", 1),)),
    c.Delete(902, c.Range(0, 4)),
    c.Update(903, c.Range(2, 6), 1),
    c.Merge(904, (1, 7)),
    c.Optimize(905, (0, 1, 2)),
    c.Restore(906, 1),
    c.Alter(907, "set", "a"),
)


@dataclass
class Survivors:
    """Handles of replaced tables, and transactions with the text of the commit they read."""

    handles: list[DeltaTable] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    running: list[tuple[Running, bytes]] = field(default_factory=list)

    def join(self, played: Played) -> None:
        """Add the handles of a table that will be replaced."""
        self.handles += [*played.scene.handles, played.table]
        self.snapshots += played.scene.read.values()
        table = DeltaTable(played.table.store, clock=played.scene.clock)
        read = played.scene.record.newest.text
        for command in LEFT_OPEN:
            running = run(command, table, stats=True)
            if running.staged:
                self.running.append((running, read))

    def check(self, played: Played) -> None:
        """Raise AssertionError unless all read the present table and commit nothing."""
        record = played.scene.record
        since_ms = played.scene.tombstones_since_ms
        current = [handle.snapshot() for handle in self.handles]
        current += [snapshot.update() for snapshot in self.snapshots]
        for snapshot in current:
            check_state(snapshot.state, record.newest, tombstones_since_ms=since_ms)
        for version in record.versions:
            for handle in self.handles[-2:]:
                opened = handle.snapshot(version=version.number)
                check_state(opened.state, version, tombstones_since_ms=since_ms)
        for running, read in self.running:
            if not _is_there(record, running.txn.read_version, read):
                _check_refused(running)
        before = len(record.versions)
        record.follow()
        assert len(record.versions) == before, "a transaction committed into another table"


def _check_refused(running: Running) -> None:
    """Check that nothing is committed: by an error, or because the change is already made."""
    try:
        running.txn.commit(running.operation)
    except EngineError:
        return
    assert running.txn.outcome is not None
    assert not running.txn.outcome.committed, f"{running.command} committed into another table"


def _is_there(record: Record, number: int, text: bytes) -> bool:
    """Return True if the version in the log is the one that was read."""
    return number < len(record.versions) and record.versions[number].text == text


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "chunk",
    [0, *(pytest.param(n, marks=pytest.mark.stress) for n in range(1, STRESS_CHUNKS))],
)
def test_a_handle_that_outlives_its_table_reads_the_one_in_its_place_and_commits_nothing(
    chunk: int, record_property: Callable[[str, object], None]
):
    record_property("lives of three tables", SEEDS)
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        try:
            _live_on(seed)
        except Exception as error:
            what = f"seed {seed}"
            raise AssertionError(what) from error


def _live_on(seed: int) -> None:
    dice = random.Random(f"replaced {seed}")  # noqa: S311 - a seed reproduces it
    clock, survivors = FakeClock(), Survivors()
    store = ForgetfulStore(open_store(f"memory://replaced/{uuid.uuid4()}"), clock)
    setup, backup = _setup(dice), None
    for turn in range(TURNS):
        if backup is None:
            setup = _setup(dice)
            store.put_back({})
            create(setup, store.root)
            store.adopt()
        else:
            store.put_back(backup, later_ms=dice.choice([0, 0, -HOUR_MS, HOUR_MS]))
        played = begin(setup, store, clock)
        survivors.check(played)
        steps = list(iter_steps(dice, 5, setup, first=100 * turn + 1))
        place = dice.randrange(len(steps))
        go_on(played, steps[:place])
        backup = store.contents() if dice.random() < 0.5 else None
        survivors.check(played)
        go_on(played, steps[place:])
        check(played, elsewhere=False)
        survivors.check(played)
        survivors.join(played)
        clock.skip(dice.choice([-48, -1, 0, 1, 48]) * HOUR_MS)
    forget(played)


def _setup(dice: random.Random) -> Setup:
    return replace(setup_of(dice), properties=properties_of(dice))
