"""Histories: many commands interleaved on one table, played without Spark."""

import uuid
from dataclasses import dataclass, field, replace

from engine.errors import EngineError
from engine.schema.types import INTEGER, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, run, state_of
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
    """The table of a history. `vectors` None leaves them to the engine; `extra` is its last column."""

    level: str = "WriteSerializable"
    vectors: bool | None = True
    partitioned: bool = False
    row_tracking: bool = False
    stats: bool = True
    clustered: bool = False
    mapped: bool = False
    extra: bool = True


@dataclass(frozen=True)
class Step:
    """Start the command `opens`, or commit it.

    `inside` commits another between validation and put; `fault` loses the store's answer to the put,
    which was "written" or "not written".
    """

    opens: c.Command | None = None
    commits: int | None = None
    inside: int | None = None
    fault: str | None = None


@dataclass(frozen=True)
class History:
    setup: Setup
    steps: tuple[Step, ...]


@dataclass
class Played:
    """What became of it: the commands by the version they landed at, the losers by their error."""

    table: DeltaTable
    setup: Setup
    start: c.State
    landed: dict[int, Running] = field(default_factory=dict)
    lost: dict[int, EngineError] = field(default_factory=dict)
    losers: dict[int, Running] = field(default_factory=dict)


def play(history: History) -> Played:
    table = create(history.setup, f"memory://histories/{uuid.uuid4()}")
    store = ForgetfulStore(table.store)
    played = Played(DeltaTable(store, clock=FakeClock()), history.setup, state_of(table.snapshot()))
    opened: dict[int, Running] = {}
    for step in history.steps:
        if step.opens is not None:
            opened[step.opens.number] = run(step.opens, played.table, stats=history.setup.stats)
        elif step.commits in opened:
            inside = opened.pop(step.inside, None) if step.inside != step.commits else None
            store.fault = step.fault
            _commit(opened.pop(step.commits), played, inside)
    return played


def forget(played: Played) -> None:
    """Leave nothing of the table in memory."""
    store = played.table.store
    for each in list(store.list_all()):
        store.delete(each.path)


def create(setup: Setup, uri: str) -> DeltaTable:
    """An empty table as a history wants it."""
    properties = {
        "delta.isolationLevel": setup.level,
        "delta.enableRowTracking": str(setup.row_tracking).lower(),
    }
    if setup.vectors is not None:
        properties["delta.enableDeletionVectors"] = str(setup.vectors).lower()
    if setup.mapped:
        properties["delta.columnMapping.mode"] = "name"
    partitions = ["part"] if setup.partitioned else []
    clusters = ["x"] if setup.clustered else []
    schema = SCHEMA if setup.extra else StructType(SCHEMA.fields[:-1])
    return DeltaTable.create(uri, schema, partitions, clusters, properties)


class _Inside(TransactionObserver):
    """Commits another transaction between this one's validation and its put, once."""

    def __init__(self, played: Played, other: Running) -> None:
        self._played, self._other = played, other
        self._done = False

    def before_commit(self, _txn: ObservedTransaction, _attempt_version: int) -> None:
        if not self._done:
            self._done = True
            _commit(self._other, self._played, None)


def _commit(running: Running, played: Played, inside: Running | None) -> None:
    txn = running.txn
    if inside is not None:
        txn.observe(_Inside(played, inside))
    try:
        version = txn.commit(running.operation)
    except EngineError as error:
        played.lost[running.command.number] = error
        played.losers[running.command.number] = running
        return
    assert txn.outcome is not None
    if txn.outcome.committed:
        played.landed[version] = running


def without(history: History, place: int) -> History:
    """The history without one step."""
    return replace(history, steps=history.steps[:place] + history.steps[place + 1 :])
