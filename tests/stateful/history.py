"""Histories: many commands interleaved on one table, played without Spark."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from engine.clock import SystemClock
from engine.errors import EngineError
from engine.schema.types import INTEGER, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, log_parameters, run, state_of
from tests.stateful.happenings import Happening, Scene, happen_all
from tests.stateful.typed_values import build_field
from tests.stateful.weather import FakeClock, ForgetfulStore

SCHEMA = StructType(
    (
        StructField("u", STRING),
        StructField("part", STRING),
        StructField("x", INTEGER),
        StructField("n", INTEGER),
        StructField("e", INTEGER),
    )
)


@dataclass(frozen=True)
class Setup:
    """The table of a history. `vectors` None leaves them to the engine; `extra` is its last column.

    `typed` names the type of one more column, `properties` are more of the table's.
    """

    level: str = "WriteSerializable"
    vectors: bool | None = True
    partitioned: bool = False
    row_tracking: bool = False
    stats: bool = True
    clustered: bool = False
    mapped: bool = False
    extra: bool = True
    typed: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Step:
    """Start the command `opens`, or commit it.

    `inside` commits another between validation and put; `fault` loses the store's answer to the put,
    which was "written" or "not written". `before` the step other things happen, and others `within`
    it, between validation and put.
    """

    opens: c.Command | None = None
    commits: int | None = None
    inside: int | None = None
    fault: str | None = None
    before: tuple[Happening, ...] = ()
    within: tuple[Happening, ...] = ()


@dataclass(frozen=True)
class History:
    setup: Setup
    steps: tuple[Step, ...]


@dataclass
class Played:
    """The result of a history: winners by the version they committed, losers by their error.

    It began at a version of the table; `opened` are the commands that have not committed yet. Some
    lost at their start, because cleaning or VACUUM had removed the version they restore or read.
    """

    table: DeltaTable
    setup: Setup
    start: c.State
    scene: Scene
    base_version: int = 0
    opened: dict[int, Running] = field(default_factory=dict)
    landed: dict[int, Running] = field(default_factory=dict)
    aborted: dict[int, EngineError] = field(default_factory=dict)
    losers: dict[int, Running] = field(default_factory=dict)

    @property
    def store(self) -> ForgetfulStore:
        """The table's store."""
        store = self.table.store
        assert isinstance(store, ForgetfulStore)
        return store


def play(history: History, place: str | None = None) -> Played:
    """Play a history: in memory, or at a place on disk, where it begins now, as for other engines."""
    table = create(history.setup, place or f"memory://histories/{uuid.uuid4()}")
    clock = FakeClock(SystemClock().now_ms()) if place else FakeClock()
    played = begin(history.setup, ForgetfulStore(table.store, clock), clock)
    go_on(played, history.steps)
    return played


def begin(setup: Setup, store: ForgetfulStore, clock: FakeClock) -> Played:
    """Return the state before the first step, for an existing table."""
    table = DeltaTable(store, clock=clock)
    start = state_of(table.snapshot())
    return Played(table, setup, start, Scene.from_table(table, clock), table.version())


def go_on(played: Played, steps: Iterable[Step]) -> None:
    """Play steps; commands that none of them commits are left open."""
    for step in steps:
        happen_all(step.before, played.scene)
        if step.opens is not None:
            played.opened |= _open_command(step.opens, played)
        elif step.commits in played.opened:
            inside = None
            if step.inside is not None and step.inside != step.commits:
                inside = played.opened.pop(step.inside, None)
            played.store.fault = step.fault
            running = played.opened.pop(step.commits)
            _commit(running, played, _Inside(played, inside, step.within))
        played.scene.record.follow()


def _open_command(command: c.Command, played: Played) -> dict[int, Running]:
    try:
        running = run(command, played.table, stats=played.setup.stats)
    except EngineError as error:
        played.aborted[command.number] = error
        return {}
    if running.txn.snapshot is not None:
        played.scene.read[command.number] = running.txn.snapshot
    return {command.number: running}


def forget(played: Played) -> None:
    """Remove the table from memory."""
    store = played.table.store
    for status in list(store.list_all()):
        store.delete(status.path)


def create(setup: Setup, uri: str, properties: Mapping[str, str] | None = None) -> DeltaTable:
    """An empty table as a history wants it; `properties` are more of them."""
    named = {
        "delta.isolationLevel": setup.level,
        "delta.enableRowTracking": str(setup.row_tracking).lower(),
        **dict(setup.properties),
        **(properties or {}),
    }
    if setup.vectors is not None:
        named["delta.enableDeletionVectors"] = str(setup.vectors).lower()
    if setup.mapped:
        named["delta.columnMapping.mode"] = "name"
    partitions = ["part"] if setup.partitioned else []
    clusters = ["x"] if setup.clustered else []
    fields = SCHEMA.fields if setup.extra else SCHEMA.fields[:-1]
    fields = (*fields, build_field(setup.typed)) if setup.typed else fields
    return DeltaTable.create(uri, StructType(fields), partitions, clusters, named)


class _Inside(TransactionObserver):
    """An observer that lets events happen, and commits another transaction once, between validation and put."""

    def __init__(
        self, played: Played, other: Running | None, happenings: tuple[Happening, ...] = ()
    ) -> None:
        self._played, self._other, self._happenings = played, other, happenings

    def before_commit(self, _txn: ObservedTransaction, _attempt_version: int) -> None:
        other, self._other = self._other, None
        happenings, self._happenings = self._happenings, ()
        happen_all(happenings, self._played.scene)
        if other is not None:
            _commit(other, self._played, _Inside(self._played, None))


def _commit(running: Running, played: Played, inside: _Inside) -> None:
    txn = running.txn
    txn.observe(inside)
    try:
        version = txn.commit(running.operation, log_parameters(running.command))
    except EngineError as error:
        played.aborted[running.command.number] = error
        played.losers[running.command.number] = running
        return
    assert txn.outcome is not None
    if txn.outcome.committed:
        played.landed[version] = running


def drop_step(history: History, place: int) -> History:
    """The history without one step."""
    return replace(history, steps=history.steps[:place] + history.steps[place + 1 :])
