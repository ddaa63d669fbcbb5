"""What has been settled of one winner so far: evidence for the checks, and what current stages next."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyroaring import BitMap64

from engine.actions.files import AddFile, FileKey, RemoveFile
from engine.conflicts.explanation import FILES_SHOWN, ROW_LEVEL_CHANGES
from engine.conflicts.meeting import RowEvidence

ROWS_SHOWN = 100
_UNTRACED = "the winner rewrote rows in a way that cannot be traced"


@dataclass(frozen=True, slots=True)
class Restaged:
    """What current stages for a path from now on: nothing, a `remove`, an `add`, or both.

    `vector` are the rows that the deletion vector of the `add` is to delete, None to leave it.
    """

    remove: RemoveFile | None = None
    add: AddFile | None = None
    vector: BitMap64 | None = None


@dataclass(slots=True)
class Settlement:
    """The conversation with one winner. Paths that are not settled are left for files to decide."""

    cleared_adds: set[FileKey] = field(default_factory=set)
    settled_removes: set[str] = field(default_factory=set)
    matched_rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    restaged: dict[str, Restaged] = field(default_factory=dict)
    moved: dict[str, frozenset[str]] = field(default_factory=dict)
    row_count: int = 0
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    means: set[str] = field(default_factory=set)

    def settle(self, path: str, rows: BitMap64, means: str) -> None:
        """The rows that the winner removed at a path do not concern current."""
        self.settled_removes.add(path)
        self._note(path, rows, means)

    def clear(self, add: AddFile, rows: BitMap64, means: str) -> None:
        """An added file holds no row that current should have read."""
        self.cleared_adds.add(add.key)
        self._note(add.path, rows, means)

    def conflict(self, path: str, rows: BitMap64) -> None:
        """These rows are where the two sides meet."""
        self.matched_rows[path] = tuple(rows[:ROWS_SHOWN])

    def _note(self, path: str, rows: BitMap64, means: str) -> None:
        self.row_count += len(rows)
        self.means.add(means)
        if rows and len(self.rows) < FILES_SHOWN:
            self.rows[path] = tuple(rows[:ROWS_SHOWN])

    def evidence(self) -> RowEvidence:
        """What the checks may use."""
        return RowEvidence(
            cleared_adds=frozenset(self.cleared_adds),
            settled_removes=frozenset(self.settled_removes),
            matched_rows=dict(self.matched_rows),
            subclass=ROW_LEVEL_CHANGES if self.matched_rows else None,
            note="both sides touch the same rows" if self.matched_rows else _UNTRACED,
        )


def union(parts: Iterable[BitMap64]) -> BitMap64:
    """All rows of several sets."""
    rows = BitMap64()
    for each in parts:
        rows |= each
    return rows
