"""The commands of a generated history as SQL statements."""

from engine.commands.alter import AddColumns, AddConstraint, ClusterBy, DropColumns, RenameColumn
from engine.commands.command import Command
from engine.commands.merge import Merge, MergeClause
from engine.commands.model import (
    Append,
    Delete,
    Optimize,
    Overwrite,
    Reorg,
    Restore,
    SetProperties,
    Truncate,
    Update,
)
from engine.commands.sources import RowsSource, TableSource
from engine.schema.types import INTEGER, StructField, StructType
from engine.snapshot.snapshot import Snapshot
from tests.stateful import commands as c
from tests.stateful.arrow_files import FIXED, extra_of

NOTHING = Delete("1 = 0")


def render_statement(command: c.Command, snapshot: Snapshot) -> Command:  # noqa: PLR0911 - one a kind
    """The command as people give it, on a table at a version."""
    extra = extra_of(snapshot.schema.names)
    match command:
        case c.Delete():
            return Delete(command.where.sql)
        case c.Update():
            return _update(command)
        case c.Merge():
            return _merge(command, extra)
        case c.Restore():
            return Restore(version=max(0, snapshot.version - command.back))
        case c.Alter():
            return _alter(command, extra)
        case c.Truncate() | c.Optimize() | c.Reorg():
            return _upkeep(command)
    return _insert(command, snapshot, extra)


def _upkeep(command: c.Command) -> Command:
    if isinstance(command, c.Optimize):
        return Optimize(zorder_by=("x",) if command.sort else ())
    return Reorg() if isinstance(command, c.Reorg) else Truncate()


def _insert(command: c.Command, snapshot: Snapshot, extra: str | None) -> Command:
    if isinstance(command, c.InsertSelect):
        new = [f"concat('{command.number}.', u) AS u", "part", "x", f"{command.number} AS n"]
        new += [f"{command.number} AS {extra}"] if extra else []
        return Append(TableSource(snapshot.table_uri, tuple(new), command.where.sql))
    assert isinstance(command, c.Append | c.ReplaceWhere | c.Overwrite)
    rows = c.Append(command.number, command.values).new_rows(c.State(extra=extra))
    columns = (*FIXED, extra) if extra else FIXED
    values = [
        (f"'{u}'", f"'{p}'", _sql(x), *others[: len(columns) - 3])
        for u, (p, x, *others) in rows.items()
    ]
    source = _values(columns, values)
    if isinstance(command, c.Append):
        return Append(source)
    if isinstance(command, c.Overwrite):
        return Overwrite(source, dynamic_partitions=command.partitions)
    return Overwrite(source, replace_where=command.where.sql)


def _update(command: c.Update) -> Command:
    new = {"x": _sql(command.x), "n": str(command.number)}
    new |= {"part": f"'{command.part}'"} if command.part else {}
    return Update(new, command.where.sql)


def _merge(command: c.Merge, extra: str | None) -> Merge:
    number, clauses = str(command.number), []
    if command.inserts:
        new = {"u": "source.u", "part": "'a'", "x": "source.x", "n": number}
        new |= {extra: number} if extra else {}
        clauses.append(MergeClause("not_matched", "insert", assignments=new))
    rest = None
    if command.first is not None:
        below = f"target.x < {command.first[0]}"
        clauses += _clauses("matched", command.first[1], number, below)
        rest = f"NOT ({below})" if command.first[1] == "nothing" else None
    clauses += _clauses("matched", command.matched, number, rest)
    if command.unmatched_below is not None:
        below = f"target.x < {command.unmatched_below}"
        clauses += _clauses("not_matched_by_source", command.otherwise, number, below)
    source = _values(("u", "x"), [(f"'{number}.{x}'", x) for x in command.keys])
    return Merge(source, "target.x = source.x", tuple(clauses))


def _clauses(when: str, action: str, number: str, condition: str | None) -> list[MergeClause]:
    if action == "delete":
        return [MergeClause(when, "delete", condition)]
    if action == "nothing":
        return []
    new = {"n": number} | ({"x": "(target.x + 3) % 8"} if action == "shift" else {})
    return [MergeClause(when, "update", condition, new)]


def _alter(command: c.Alter, extra: str | None) -> Command:  # noqa: PLR0911 - one a kind
    match command.what:
        case "set":
            return SetProperties(dict([command.term]))
        case "feature":
            return SetProperties({f"delta.feature.{command.value}": "supported"})
        case "constrain":
            return AddConstraint(c.CONSTRAINT.rpartition(".")[2], command.term[1])
        case "cluster":
            return ClusterBy((command.value,))
        case "add" if extra is None:
            return AddColumns(StructType((StructField(command.column, INTEGER),)))
        case "rename" if extra is not None:
            return RenameColumn(extra, command.column)
        case "drop" if extra is not None:
            return DropColumns((extra,))
    return NOTHING


def _values(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> RowsSource:
    return RowsSource(columns, tuple(tuple(map(str, row)) for row in rows))


def _sql(x: int | None) -> str:
    return "CAST(NULL AS INT)" if x is None else str(x)
