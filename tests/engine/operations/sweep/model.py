"""A model of a table in plain Python, with the expected result of every operation.

A row knows the steps of its creation and of its last change, which determine row ids and row commit
versions.
"""

import copy
import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tests.engine.operations.sweep.layouts import Layout

Values = dict[str, Any]

PARTS = ("a", "b%/= c", None)
DAYS = (dt.date(2024, 2, 29), None)
INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])


@dataclass(frozen=True)
class Row:
    """Values by the columns' first names; `birth` is unique to the row, `changed` is a step's number."""

    values: Values
    birth: int
    changed: int


@dataclass
class Model:
    """The table's current state.

    Attributes:
        layout: the table's options.
        rows: its rows, in no order.
        names: the columns' current names by their first names; dropped ones are missing.
        types: the columns' types.
        step: number of the current operation.
        versions: rows and names of each version.
        committed: the version that each step committed.
    """

    layout: Layout
    rows: list[Row] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    step: int = 0
    versions: dict[int, "Model"] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    oldest: int = 0
    made: int = 0

    @classmethod
    def empty(cls, layout: Layout) -> "Model":
        """Return the newly created table."""
        types: dict[str, pa.DataType] = {
            "u": pa.string(),
            "p": pa.string(),
            "d": pa.date32(),
            "x": pa.int32(),
            "v": pa.float64(),
            "w": pa.int16(),
            "s": INNER,
        }
        if layout.generated:
            types["g"] = pa.int64()
        return cls(layout, names={name: name for name in types}, types=types)

    def fresh(self, count: int, **fixed: Any) -> list[Row]:
        """Return new rows, each unlike any before."""
        return [self._create_row(fixed) for _ in range(count)]

    def change_row(self, row: Row, **values: Any) -> Row:
        """Return the row after an update."""
        return replace(row, values=self._whole({**row.values, **values}), changed=self.step)

    def move_row(self, row: Row) -> Row:
        """Return a copy of the row with another key."""
        values = self._whole({**row.values, "u": row.values["u"] + self.copied})
        return Row(values, self._number(), self.step)

    @property
    def copied(self) -> str:
        """Return the suffix of a key that this step copies."""
        return f"+{self.step}"

    def update_rows(
        self, chosen: Callable[[Values], bool], **new: Callable[[Values], Any]
    ) -> list[Row]:
        """Return all rows, with new values in the chosen ones."""
        return [
            self.change_row(row, **{name: value(row.values) for name, value in new.items()})
            if chosen(row.values)
            else row
            for row in self.rows
        ]

    def exclude_rows(self, chosen: Callable[[Values], bool]) -> list[Row]:
        """Return the rows without the chosen ones."""
        return [row for row in self.rows if not chosen(row.values)]

    def add_column(self, name: str, kind: pa.DataType) -> None:
        """Add a column that is null in every existing row."""
        self.names[name], self.types[name] = name, kind
        self.rows = [replace(row, values={**row.values, name: None}) for row in self.rows]

    def add_field(self, name: str, kind: pa.DataType) -> None:
        """Add a field to the struct, null in every existing struct."""
        self.types["s"] = pa.struct([*self.types["s"], (name, kind)])
        self.rows = [
            replace(
                row, values={**row.values, "s": row.values["s"] and {**row.values["s"], name: None}}
            )
            for row in self.rows
        ]

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        del self.names[name], self.types[name]
        self.rows = [
            replace(row, values={k: v for k, v in row.values.items() if k != name})
            for row in self.rows
        ]

    def remember(self, version: int) -> None:
        """Record the current state as a version."""
        kept = copy.copy(self)
        kept.names, kept.types, kept.versions = dict(self.names), dict(self.types), {}
        self.versions[version] = kept
        self.committed.setdefault(self.step, version)

    def restore(self, version: int) -> None:
        """Restore the state of a version."""
        then = self.versions[version]
        self.rows, self.names, self.types = then.rows, dict(then.names), dict(then.types)

    def show_rows(self) -> list[tuple[Any, ...]]:
        """Return rows as readers return them, sorted."""
        return sort_rows(tuple(row.values[name] for name in self.names) for row in self.rows)

    def writable(self) -> list[str]:
        """Return the first names of the columns that a source provides."""
        return [name for name in self.names if name != "g"]

    def table_of(self, rows: Iterable[Row], *more: str) -> pa.Table:
        """Return rows as a source provides them, under the current names."""
        names = self.writable()
        listed = list(rows)
        columns = {
            self.names[name]: pa.array([row.values[name] for row in listed], self.types[name])
            for name in names
        }
        for name in more:
            columns[name] = pa.array([row.values[name] for row in listed])
        return pa.table(columns)

    def _create_row(self, fixed: Mapping[str, Any]) -> Row:
        n = self._number()
        values: Values = {
            "u": f"r{n}",
            "p": PARTS[n % 3],
            "d": DAYS[n // 2 % 2],
            "x": n % 7,
            "v": None if n % 4 == 0 else n / 2,
            "w": 100_000 + n if self.types["w"] == pa.int32() else n,
            "s": None if n % 5 == 0 else self._inner(n),
            "extra": f"e{n}",
        }
        kept = {name: values.get(name) for name in self.names}
        return Row(self._whole({**kept, **fixed}), n, self.step)

    def _inner(self, n: int) -> Values:
        fields = {"a": n, "b": None if n % 2 else f"'{n}", "c": n / 4}
        return {type_.name: fields[type_.name] for type_ in self.types.get("s", ())}

    def _whole(self, values: Values) -> Values:
        """Add the generated column."""
        return {**values, "g": values["x"] * 10} if "g" in self.names else values

    def _number(self) -> int:
        self.made += 1
        return self.made


def sort_rows(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of any values, sorted."""
    return sorted(rows, key=repr)
