"""Tables as other engines write them, each with the rows that every version of it holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from tests.engine.foreign.hand_writer import HandWriter

Write = Callable[[HandWriter], None]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class ForeignTable:
    """A table that something else than this engine writes.

    `rows` are those of the versions that can be read. `readers` are the other engines that read the
    newest version as we do; `refusal` is what is raised where nothing can be read, `unreadable` where
    the log can be read and its rows cannot.
    """

    name: str
    write: Write
    rows: Mapping[int, Sequence[Row]]
    readers: frozenset[str]
    refusal: type[EngineError] | None
    unreadable: bool
    read_only: str | None

    def make(self, place: Path) -> Path:
        """Write it into a directory of its own there."""
        root = place / self.name
        root.mkdir(parents=True)
        self.write(HandWriter(root))
        return root


FOREIGN_TABLES: dict[str, ForeignTable] = {}
BOTH = ("deltalake", "duckdb")


def foreign_table(
    rows: Mapping[int, Sequence[Row]] | Sequence[Row] = (),
    readers: Sequence[str] = BOTH,
    *,
    refusal: type[EngineError] | None = None,
    unreadable: bool = False,
    read_only: str | None = None,
) -> Callable[[Write], Write]:
    """Register what a function writes, under its name; `rows` alone are those of version 0."""

    def register(write: Write) -> Write:
        name = write.__name__
        assert name not in FOREIGN_TABLES
        by_version = rows if isinstance(rows, Mapping) else {0: rows}
        FOREIGN_TABLES[name] = ForeignTable(
            name, write, by_version, frozenset(readers), refusal, unreadable, read_only
        )
        return write

    return register
