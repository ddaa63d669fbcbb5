"""Commands of histories, run by deltalake."""

from collections.abc import Callable

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.table import TableMerger

from tests.stateful import commands as c
from tests.stateful.history import Setup

_TYPES = {"u": pa.string(), "part": pa.string(), "x": pa.int32(), "n": pa.int32()}


class Deltalake:
    """deltalake, which writes no clustered tables and assigns no row ids."""

    def can(self, setup: Setup) -> bool:
        """Return True if deltalake can write tables of this kind."""
        own = not (setup.clustered or setup.row_tracking)
        return own and "delta.checkpointPolicy" not in dict(setup.properties)

    def do(self, command: c.Command, place: str, extra: str | None) -> None:
        """Run a command on a table; a refused command changes nothing."""
        try:
            if isinstance(command, c.Append | c.Overwrite | c.ReplaceWhere):
                self._write(place, command, extra)
            else:
                self._change(DeltaTable(place), command, extra)
        except DeltaError:
            return  # a constraint, or mapped columns that it does not compact

    def _change(self, table: DeltaTable, command: c.Command, extra: str | None) -> None:
        match command:
            case c.Truncate():
                table.delete()
            case c.Delete():
                table.delete(command.where.sql)
            case c.Update():
                table.update(_assignments(command), predicate=command.where.sql)
            case c.Optimize():
                table.optimize.z_order(["x"]) if command.sort else table.optimize.compact()
            case c.Merge():
                _merge(command, table, extra).execute()
            case _:
                raise AssertionError(command)

    def _write(
        self, place: str, command: c.Append | c.Overwrite | c.ReplaceWhere, extra: str | None
    ) -> None:
        new = c.Append(command.number, command.values).new_rows(c.State(extra=extra))
        names = {**_TYPES, **({extra: pa.int32()} if extra else {})}
        columns = zip(*((key, *row[: len(names) - 1]) for key, row in new.items()), strict=True)
        arrays = [
            pa.array(column, names[name]) for name, column in zip(names, columns, strict=True)
        ]
        mode, predicate = "overwrite", None
        if isinstance(command, c.Append):
            mode = "append"
        elif isinstance(command, c.ReplaceWhere):
            predicate = command.where.sql
        elif command.partitions:
            predicate = " OR ".join(f"part = '{part}'" for part in command.parts)
        write_deltalake(place, pa.table(arrays, names=list(names)), mode=mode, predicate=predicate)


def _assignments(command: c.Update) -> dict[str, str]:
    new = {"x": _sql(command.x), "n": str(command.number)}
    return new | ({"part": f"'{command.part}'"} if command.part else {})


def _sql(x: int | None) -> str:
    return "CAST(NULL AS INT)" if x is None else str(x)


def _merge(command: c.Merge, table: DeltaTable, extra: str | None) -> TableMerger:
    number = str(command.number)
    source = pa.table(
        {
            "u": [f"{number}.{x}" for x in command.keys],
            "x": pa.array(command.keys, pa.int32()),
        }
    )
    merger = table.merge(
        source, "target.x = source.x", source_alias="source", target_alias="target"
    )
    if command.inserts:
        new = {"u": "source.u", "part": f"'{command.part}'", "x": "source.x", "n": number}
        merger = merger.when_not_matched_insert(new | ({extra: number} if extra else {}))
    rest = None
    if command.first is not None:
        below = f"target.x < {command.first[0]}"
        merger = _add_matched_clause(merger, command.first[1], number, below)
        rest = f"NOT ({below})" if command.first[1] == "nothing" else None
    merger = _add_matched_clause(merger, command.matched, number, rest)
    if command.unmatched_below is not None:
        below = f"target.x < {command.unmatched_below}"
        merger = _clause(
            command.otherwise,
            number,
            lambda new: merger.when_not_matched_by_source_update(new, below),
            lambda: merger.when_not_matched_by_source_delete(below),
            merger,
        )
    return merger


def _add_matched_clause(
    merger: TableMerger, action: str, number: str, condition: str | None
) -> TableMerger:
    return _clause(
        action,
        number,
        lambda new: merger.when_matched_update(new, condition),
        lambda: merger.when_matched_delete(condition),
        merger,
    )


def _clause(
    action: str,
    number: str,
    update: Callable[[dict[str, str]], TableMerger],
    delete: Callable[[], TableMerger],
    merger: TableMerger,
) -> TableMerger:
    if action == "delete":
        return delete()
    if action == "nothing":
        return merger
    return update({"n": number} | ({"x": "(target.x + 3) % 8"} if action == "shift" else {}))
