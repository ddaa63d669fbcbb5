"""The content of a sweep step: commands, and their expected effect on the model."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.commands.command import Command
from engine.commands.sources import FileSource, RowsSource
from engine.errors import EngineError
from tests.engine.operations.sweep.model import Model, Row


@dataclass(frozen=True)
class Plan:
    """Commands, the expected rows, and other effects on the model.

    `counts` are metrics that the model knows; `refused` is the error if the layout does not support the
    operation.
    """

    commands: Sequence[Command | str]
    rows: Sequence[Row] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    effect: Callable[[], None] | None = None
    refused: type[EngineError] | None = None


@dataclass
class Bench:
    """The context of a step: the model, the table's location, and a directory for sources."""

    model: Model
    uri: str
    scratch: Path

    def file(self, table: pa.Table) -> FileSource:
        """Write rows as two files to load, so that two tasks write them."""
        place = self.scratch / f"source {self.model.step}"
        place.mkdir()
        half = table.num_rows // 2
        for number, part in enumerate((table[:half], table[half:])):
            pq.write_table(part, place / f"{number}.parquet")
        return FileSource(str(place), "parquet")

    def values_source(self, rows: Sequence[Row]) -> RowsSource:
        """Return rows as VALUES; structs have no literal."""
        names = [name for name in self.model.writable() if name != "s"]
        listed = tuple(tuple(literal(row.values[name]) for name in names) for row in rows)
        return RowsSource(tuple(self.model.names[name] for name in names), listed)

    def sql(self, name: str, side: str = "") -> str:
        """Return a column's name in conditions."""
        quoted = f"`{self.model.names[name]}`"
        return f"{side}.{quoted}" if side else quoted


Step = Callable[[Bench], Plan]


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else repr(value)
