"""Pairs of statements as real transactions on a table in memory.

The table has two files, A with x from 1 to 4 and B with x from 5 to 8, each in a partition of its
own if the table is partitioned.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from engine.actions.files import AddFile
from engine.actions.statistics import parse_stats
from engine.actions.table import SetTransaction
from engine.conflicts.predict.sample_table import TableSetting
from engine.errors import ConflictError
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.protocol.features import list_supported_features, upgrade
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.vocabulary import StatementKind
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, log_parameters, run
from tests.stateful.history import Setup, create

LAYOUTS = {
    "plain": {"vectors": False},
    "deletion vectors": {"vectors": True},
    "row tracking": {"vectors": True, "row_tracking": True},
    "partitioned": {"vectors": False, "partitioned": True},
    "partitioned with vectors": {"vectors": True, "partitioned": True},
    "clustered without vectors": {"vectors": False, "clustered": True},
    "partitioned, row tracking": {"vectors": True, "partitioned": True, "row_tracking": True},
    "clustered, row tracking without vectors": {
        "vectors": False,
        "clustered": True,
        "row_tracking": True,
    },
    "clustered": {"vectors": True, "clustered": True},
    "clustered, row tracking": {"vectors": True, "clustered": True, "row_tracking": True},
}
ROWS_OF = {"A": (1, 2, 3, 4), "B": (5, 6, 7, 8)}


@dataclass(frozen=True)
class Place:
    """One row of a file, or all its rows."""

    x: int
    whole_file: bool = False

    @property
    def file(self) -> str:
        return "A" if self.x < 5 else "B"

    @property
    def part(self) -> str:
        return self.file.lower()

    @property
    def rows(self) -> tuple[int, ...]:
        return ROWS_OF[self.file] if self.whole_file else (self.x,)

    @property
    def range(self) -> c.Range:
        return c.Range(self.rows[0], self.rows[-1] + 1)


Statement = tuple[StatementKind, Place]


@dataclass(frozen=True)
class Pair:
    """Two statements that have read the same version."""

    current: Running
    winner: Running

    @classmethod
    def open(cls, setting: TableSetting, current: Statement, winner: Statement) -> "Pair":
        """Open two statements that have staged their changes and not committed."""
        table = copy_table(setting)
        return cls(_open_statement(table, *current, 2), _open_statement(table, *winner, 3))

    @classmethod
    def open_commands(cls, setting: TableSetting, current: c.Command, winner: c.Command) -> "Pair":
        """Return two commands that have staged their changes on one version."""
        table = copy_table(setting)
        return cls(run(current, table, stats=True), run(winner, table, stats=True))

    def winner_commits(self) -> None:
        _commit(self.winner)

    def find_early(self, *, staged: bool) -> ConflictError | None:
        """Return the other statement's early conflict; if `staged` is false, before it staged anything."""
        txn = self.current.txn
        actions = list(txn.actions)
        if not staged:
            txn._actions.clear()
        try:
            return txn.find_early_conflict(self.current.operation)
        finally:
            txn._actions[:] = actions

    def current_commits(self) -> ConflictError | None:
        """Commit the current statement and return its conflict, if any."""
        try:
            _commit(self.current)
        except ConflictError as conflict:
            return conflict
        return None


def happens(
    setting: TableSetting, current: Statement, winner: Statement
) -> type[ConflictError] | None:
    """Return the first statement's conflict if both open together and the second commits first."""
    pair = Pair.open(setting, current, winner)
    pair.winner_commits()
    conflict = pair.current_commits()
    return None if conflict is None else type(conflict)


def lands(table: DeltaTable, kind: StatementKind, place: Place) -> None:
    """Open and commit one more statement."""
    _commit(_open_statement(table, kind, place, 4))


def _open_statement(table: DeltaTable, kind: StatementKind, place: Place, number: int) -> Running:
    return _OPEN[kind](table, place, number)


def _commit(running: Running) -> None:
    parameters = log_parameters(running.command)
    running.txn.commit(running.operation, parameters, even_if_empty=True)


@cache
def _base(setting: TableSetting) -> str:
    setup = Setup(
        level=str(setting.level),
        vectors=setting.vectors,
        partitioned=setting.partitioned,
        row_tracking=setting.row_tracking,
        clustered=setting.clustered,
    )
    table = create(setup, f"memory://pairs/{uuid.uuid4()}")
    for number, (file, rows) in enumerate(ROWS_OF.items()):
        values = tuple((file.lower(), x) for x in rows)
        _commit(run(c.Append(10 + number, values), table, stats=True))
    _commit(run(c.Alter(19, "feature", "checkConstraints"), table, stats=True))
    return table.uri


def copy_table(setting: TableSetting) -> DeltaTable:
    """Return a separate table with the two files."""
    base = open_store(_base(setting))
    copy = open_store(f"memory://pairs/{uuid.uuid4()}")
    for file in base.list_all():
        copy.put(file.path, base.read(file.path))
    return DeltaTable(copy)


def _simple(command: Callable[[Place, int], c.Command]) -> Callable[..., Running]:
    def open_it(table: DeltaTable, place: Place, number: int) -> Running:
        return run(command(place, number), table, stats=True)

    return open_it


def _insert(place: Place, number: int) -> c.Command:
    """Insert a row that statistics alone cannot tell from others of the place."""
    beside = 0 if place.file == "A" else 9
    return c.Append(number, tuple((place.part, x) for x in (*place.rows, beside)))


def _insert_select(table: DeltaTable, place: Place, number: int) -> Running:
    """Read the rows of the place and insert as many."""
    running = run(_insert(place, number), table, stats=True)
    running.txn.read_where(place.range.sql)
    return running


def _stream(table: DeltaTable, place: Place, number: int) -> Running:
    running = run(_insert(place, number), table, stats=True)
    running.txn.read_application(f"query {number}")
    running.txn.stage(SetTransaction(app_id=f"query {number}", version=1))
    return Running(running.command, running.txn, "STREAMING UPDATE", running.staged)


def _compaction(sort: bool) -> Callable[..., Running]:
    """Compact the file that holds the place, or both files if the place is whole."""

    def open_it(table: DeltaTable, place: Place, number: int) -> Running:
        live = sorted(table.snapshot().add_files(), key=lambda add: add.path)
        numbers = [n for n, add in enumerate(live) if place.whole_file or _holds(add, place)]
        return run(c.Optimize(number, tuple(numbers), sort=sort), table, stats=True)

    return open_it


def _holds(add: AddFile, place: Place) -> bool:
    stats = parse_stats(add.stats) or {}
    return bool(stats["minValues"]["x"] <= place.x <= stats["maxValues"]["x"])


def _vacuum(table: DeltaTable, _place: Place, number: int) -> Running:
    return Running(c.Alter(number), table.start_transaction(), "VACUUM END")


def _replace(table: DeltaTable, place: Place, number: int) -> Running:
    running = run(c.Overwrite(number, ((place.part, place.x),)), table, stats=True)
    assert running.txn.snapshot is not None
    running.txn.stage(running.txn.snapshot.metadata)
    operation = "CREATE OR REPLACE TABLE AS SELECT"
    return Running(running.command, running.txn, operation, running.staged)


def _drop_columns(table: DeltaTable, _place: Place, number: int) -> Running:
    """Drop columns, and restate the clustering if the table supports it."""
    running = run(c.Alter(number, "set", "a"), table, stats=True)
    snapshot = running.txn.snapshot
    assert snapshot is not None
    if "clustering" in list_supported_features(snapshot.protocol):
        running.txn.stage(snapshot.domains[CLUSTERING_DOMAIN])
    return Running(running.command, running.txn, "DROP COLUMNS", running.staged)


def _cluster_by(table: DeltaTable, _place: Place, number: int) -> Running:
    """Cluster the table, after adding the table features that it lacks."""
    running = run(c.Alter(number, "cluster", "n"), table, stats=True)
    assert running.txn.snapshot is not None
    now = running.txn.snapshot.protocol
    protocol = upgrade(now, {"clustering", "domainMetadata"})
    if protocol != now:
        running.txn.stage(protocol)
    return running


_OPEN: Mapping[StatementKind, Callable[[DeltaTable, Place, int], Running]] = {
    StatementKind.INSERT: _simple(_insert),
    StatementKind.INSERT_SELECT: _insert_select,
    StatementKind.STREAM: _stream,
    StatementKind.UPDATE: _simple(lambda p, n: c.Update(n, p.range, p.x, promise=True)),
    StatementKind.DELETE: _simple(lambda p, n: c.Delete(n, p.range, promise=True)),
    StatementKind.MERGE: _simple(lambda p, n: c.Merge(n, p.rows)),
    StatementKind.OVERWRITE: _simple(lambda p, n: c.Overwrite(n, ((p.part, p.x),))),
    StatementKind.TRUNCATE: _simple(lambda _, n: c.Truncate(n)),
    StatementKind.RESTORE: _simple(lambda _, n: c.Restore(n, 2)),
    StatementKind.REPLACE: _replace,
    StatementKind.OPTIMIZE: _compaction(sort=False),
    StatementKind.ZORDER: _compaction(sort=True),
    StatementKind.UPGRADE: _simple(lambda _, n: c.Alter(n, "feature", "inCommitTimestamp")),
    StatementKind.ALTER: _simple(lambda _, n: c.Alter(n, "set", "a")),
    StatementKind.DROP_COLUMNS: _drop_columns,
    StatementKind.CHECKED_ALTER: _simple(lambda _, n: c.Alter(n, "constrain", "100")),
    StatementKind.CLUSTER_BY: _cluster_by,
    StatementKind.VACUUM: _vacuum,
}
KINDS = tuple(_OPEN)
