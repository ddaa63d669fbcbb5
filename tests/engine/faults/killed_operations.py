"""Operations for the kill sweep: how to create each table and run each operation.

All of them run without Spark: commands on Arrow, as in generated histories, and the engine's own
operations that read no rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.catalog.embedded import EmbeddedCatalog
from engine.clock import Clock
from engine.commands.command import Command
from engine.commands.model import Clone, Create, Restore, Vacuum
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from engine.transaction.log_tail import find_own_commit
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run as run_on_arrow
from tests.stateful.history import Setup, create

NOW = 1_700_000_000_000
LATER = NOW + 50 * 365 * 24 * 3_600_000  # late enough that everything that may expire has expired
SOURCE = "source"
"""The directory beside the table that clones read."""
MANAGED, BESIDE = "main.default.t", "main.default.u"
V2 = {"delta.checkpointPolicy": "v2", "delta.feature.v2Checkpoint": "supported"}
ROWS = tuple(("ab"[x % 2], x) for x in range(6))
SOME = (c.Append(1, ROWS), c.Append(2, (("a", 6), ("b", 7))), c.Delete(3, c.Range(0, 1)))


class StillClock:
    """A clock that stands still; pauses take no time."""

    def __init__(self, ms: int = NOW) -> None:
        self._ms = ms

    def now_ms(self) -> int:
        return self._ms

    def monotonic_s(self) -> float:
        return 0.0

    def pause(self, seconds: float) -> None:
        """Return at once."""


PLAIN, CLOCK = Setup(), StillClock()


@dataclass(frozen=True)
class OnArrow:
    """A command of generated histories that reads a version `behind` the newest."""

    command: c.Command
    made: tuple[c.Command, ...] = SOME
    behind: int = 0
    setup: Setup = PLAIN
    properties: Mapping[str, str] | None = None
    commits_once = True

    def make(self, place: str) -> None:
        """Create the table."""
        table = create(self.setup, place, self.properties)
        for command in self.made:
            running = run_on_arrow(command, _stop_clock(table), stats=True)
            running.txn.commit(running.operation)

    def act(self, store: Store, txn_id: str) -> None:
        """Run the command, unless the log already holds it."""
        table = DeltaTable(store, clock=StillClock())
        newest = table.version()
        read_version = newest - self.behind
        if find_own_commit(store, txn_id, len(self.made), newest) is not None:
            return
        begun = _BegunEarlier(store, read_version) if newest == len(self.made) else table
        running = run_on_arrow(self.command, begun, stats=True, txn_id=txn_id)
        running.txn.commit(running.operation)


@dataclass(frozen=True)
class ByEngine:
    """A command of the engine, or its text."""

    command: Command | str
    made: tuple[c.Command | str, ...] = SOME
    properties: Mapping[str, str] | None = None
    clock: Clock = CLOCK
    is_new: bool = False
    has_source: bool = False
    commits_once: bool = True

    def make(self, place: str) -> None:
        """Create the table, and the source table of clones beside it."""
        if self.has_source:
            OnArrow(c.Truncate(9)).make(str(Path(place).parent / SOURCE))
        if self.is_new:
            return
        table = _stop_clock(create(Setup(), place, self.properties))
        for step in self.made:
            if isinstance(step, str):
                run(parse_statement(step), table, None)
            else:
                running = run_on_arrow(step, table, stats=True)
                running.txn.commit(running.operation)

    def act(self, store: Store, txn_id: str) -> None:
        """Run the command, unless the log already holds it."""
        command = parse_statement(self.command) if isinstance(self.command, str) else self.command
        if isinstance(command, Clone):
            command = replace(command, source_table=str(Path(store.root).parent / SOURCE))
        before = -1 if self.is_new else len(self.made)
        table = DeltaTable(store, clock=self.clock)
        run(command, table, None, txn_id=txn_id, since_version=before)


@dataclass(frozen=True)
class OnManaged:
    """A statement on tables of an embedded catalog; all lie below the directory of the test."""

    text: str
    tables: tuple[str, ...] = (MANAGED,)

    def make(self, place: str) -> None:
        """Create the catalog and the tables."""
        Path(place).mkdir()
        for name in self.tables:
            DeltaTable.create(name, NEW, catalog=open_catalog(place), clock=CLOCK)
            for _ in range(2):
                _run_managed("INSERT INTO t VALUES (0, 'made'), (1, 'made')", place, name)

    def act(self, store: Store, txn_id: str) -> None:
        """Run the statement, unless the log already holds it."""
        _run_managed(self.text, store.root, txn_id=txn_id, since_version=0)

    def insert_next(self, place: str) -> None:
        """Insert a row into each table by another writer."""
        for name in self.tables:
            _run_managed("INSERT INTO t VALUES (100, 'next')", place, name)


def open_catalog(place: str) -> EmbeddedCatalog:
    return EmbeddedCatalog(Path(place) / "catalog.db", str(Path(place) / "lake"))


def open_managed(place: str, name: str = MANAGED) -> DeltaTable:
    return DeltaTable.open(name, catalog=open_catalog(place), clock=CLOCK)


def _run_managed(text: str, place: str, name: str = MANAGED, **options: Any) -> None:
    opens = partial(open_managed, place)
    run(parse_statement(text), opens(name), None, open_changed=opens, **options)


Killed = OnArrow | ByEngine | OnManaged


class _BegunEarlier(DeltaTable):
    """A handle whose transactions read an earlier version."""

    def __init__(self, store: Store, read_version: int) -> None:
        super().__init__(store, clock=StillClock())
        self._read_version = read_version

    def start_transaction(self, **options: object) -> OptimisticTransaction:
        read = load_snapshot(self.store, self._read_version)
        return OptimisticTransaction(self, read, clock=self.clock, **options)  # type: ignore[arg-type]


def _stop_clock(table: DeltaTable) -> DeltaTable:
    return DeltaTable(LocalStore(table.uri), clock=StillClock())


def _every(versions: int, **more: str) -> dict[str, str]:
    return {"delta.checkpointInterval": str(versions), **more}


LONG_AFTER = StillClock(LATER)
NEW = StructType((StructField("n", LONG), StructField("name", STRING)))
MAPPED = {"delta.columnMapping.mode": "name"}
COMPACTED = _every(100, **{"delta.logCompactionInterval": "2"})
CLEANED = _every(2, **{"delta.logRetentionDuration": "interval 1 day"})
PARTED = Setup(partitioned=True)
REWRITING = Setup(vectors=False)

MANAGED_OPERATIONS = {
    "insert into a managed table": OnManaged("INSERT INTO t VALUES (7, 'killed')"),
    "delete from a managed table": OnManaged("DELETE FROM t WHERE n = 1"),
    "transaction on a managed table": OnManaged(
        "BEGIN ATOMIC DELETE FROM t WHERE n = 1; INSERT INTO t VALUES (1, 'killed'), (7, 'new'); END"
    ),
    "transaction on two managed tables": OnManaged(
        "BEGIN ATOMIC DELETE FROM main.default.t WHERE n = 1; "
        "INSERT INTO main.default.u VALUES (7, 'new'); END",
        (MANAGED, BESIDE),
    ),
}
OPERATIONS: dict[str, OnArrow | ByEngine] = {
    "append": OnArrow(c.Append(9, (("a", 1), ("b", 2)))),
    "append to partitions": OnArrow(c.Append(9, (("a", 1), ("b", 2))), setup=PARTED),
    "insert select": OnArrow(c.InsertSelect(9, c.Range(2, 5))),
    "delete by a vector": OnArrow(c.Delete(9, c.Range(2, 4))),
    "delete by a rewrite": OnArrow(c.Delete(9, c.Range(2, 4)), setup=REWRITING),
    "update": OnArrow(c.Update(9, c.Range(2, 4), 7)),
    "update of partitions": OnArrow(c.Update(9, c.Range(2, 4), 7, part="b"), setup=PARTED),
    "merge": OnArrow(c.Merge(9, (3, 9), "shift", unmatched_below=2)),
    "replace where": OnArrow(c.ReplaceWhere(9, c.Range(2, 4), (("a", 2),))),
    "overwrite": OnArrow(c.Overwrite(9, (("a", 2), ("b", 3)))),
    "overwrite of a partition": OnArrow(c.Overwrite(9, (("a", 2),), True), setup=PARTED),
    "optimize": OnArrow(c.Optimize(9, (0, 1))),
    "optimize with row ids": OnArrow(c.Optimize(9, (0, 1), True), setup=Setup(row_tracking=True)),
    "purge": OnArrow(c.Reorg(9)),
    "restore on arrow": OnArrow(c.Restore(9, 2)),
    "delete over a delete": OnArrow(c.Delete(9, c.Range(2, 4)), behind=1),
    "delete over optimize": OnArrow(
        c.Delete(9, c.Range(2, 4)), made=(*SOME, c.Optimize(4, (0, 1))), behind=1
    ),
    "optimize over a delete": OnArrow(c.Optimize(9, (0, 1)), behind=1),
    "append with a checkpoint": OnArrow(c.Append(9, ROWS), properties=_every(4)),
    "append with a v2 checkpoint": OnArrow(c.Append(9, ROWS), properties=_every(4, **V2)),
    "append with a compaction": OnArrow(c.Append(9, ROWS), properties=COMPACTED),
    "create": ByEngine(Create(schema=NEW, clustering_columns=("n",)), is_new=True),
    "create or replace": ByEngine(Create(schema=NEW, replace=True)),
    "clone": ByEngine(Clone("", deep=True), is_new=True, has_source=True),
    "truncate": ByEngine("TRUNCATE TABLE t"),
    "delete everything": ByEngine("DELETE FROM t"),
    "transaction": ByEngine(
        "BEGIN ATOMIC DELETE FROM t WHERE x < 3; "
        "INSERT INTO t VALUES ('u', 'a', 1, 2, 3), ('v', 'b', 4, 5, 6); "
        "UPDATE t SET n = 7 WHERE x > 3; DELETE FROM t WHERE u = 'u'; END"
    ),
    "restore": ByEngine(Restore(version=2)),
    "vacuum": ByEngine(
        Vacuum(), made=(*SOME, "DELETE FROM t"), clock=LONG_AFTER, commits_once=False
    ),
    "vacuum lite": ByEngine(
        Vacuum(lite=True),
        made=(*SOME, "DELETE FROM t"),
        clock=LONG_AFTER,
        commits_once=False,
    ),
    "set properties": ByEngine(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    ),
    "enable row tracking": ByEngine(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", commits_once=False
    ),
    "add columns": ByEngine("ALTER TABLE t ADD COLUMNS (more STRING AFTER x)"),
    "rename a column": ByEngine("ALTER TABLE t RENAME COLUMN n TO number", properties=MAPPED),
    "drop columns": ByEngine("ALTER TABLE t DROP COLUMNS (e)", properties=MAPPED),
    "add a constraint": ByEngine("ALTER TABLE t ADD CONSTRAINT c CHECK (x < 10)", made=()),
    "drop a feature": ByEngine(
        "ALTER TABLE t DROP FEATURE clustering",
        properties={"delta.feature.clustering": "supported"},
        commits_once=False,
    ),
    "clean the log": ByEngine(
        "ALTER TABLE t SET TBLPROPERTIES ('note.a' = '1')",
        properties=CLEANED,
        clock=LONG_AFTER,
    ),
}
