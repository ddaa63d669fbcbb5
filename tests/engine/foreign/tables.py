"""Tables as other engines write them, each with the rows of every version."""

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
    """A table that another writer than this engine creates.

    `rows` are those of the readable versions. `readers` are the other engines that read the newest
    version correctly; `refusal` is the error if nothing can be read, `unreadable` if the log can be read
    and the rows cannot.
    """

    name: str
    write: Write
    rows: Mapping[int, Sequence[Row]]
    readers: frozenset[str]
    refusal: type[EngineError] | None
    unreadable: bool
    read_only: str | None

    def make(self, place: Path) -> Path:
        """Write the table into a directory of its own."""
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
    """Register the function as a table of its name; a plain sequence `rows` belongs to version 0."""

    def register(write: Write) -> Write:
        name = write.__name__
        assert name not in FOREIGN_TABLES
        by_version = rows if isinstance(rows, Mapping) else {0: rows}
        FOREIGN_TABLES[name] = ForeignTable(
            name, write, by_version, frozenset(readers), refusal, unreadable, read_only
        )
        return write

    return register
