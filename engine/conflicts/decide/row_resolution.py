"""Progress of row-level resolution for one winning commit: evidence and restaged files."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from engine.actions.files import AddFile, FileKey, RemoveFile
from engine.conflict_facts import SharedFile, Subclass
from engine.conflicts.decide.row_access import NO_ROWS, physical_rows
from engine.conflicts.explain.explanation import FILES_SHOWN
from engine.conflicts.overlap import UNTRACED, MatchedRows, RowEvidence

ROWS_SHOWN = 100
ROWS_DRAWN = 200


@dataclass(frozen=True, slots=True)
class RestagedFile:
    """This transaction's actions for a path from now on: none, a `remove`, an `add`, or both.

    `vector` are the rows for the deletion vector of the `add`, None to keep its vector.
    """

    remove: RemoveFile | None = None
    add: AddFile | None = None
    vector: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """The compared rows of one file by side; `read` if this transaction only read them.

    In `version` the winning commit's rows are live: before their removal, or as added.
    """

    file: AddFile | RemoveFile
    version: int
    current: BitMap64
    winner: BitMap64
    common: BitMap64
    gone_before: BitMap64 = NO_ROWS
    read: bool = False


@dataclass(slots=True)
class RowResolution:
    """Row-level resolution of one winning commit; unresolved paths are decided at file level."""

    cleared_adds: set[FileKey] = field(default_factory=set)
    resolved_removes: set[str] = field(default_factory=set)
    matched_rows: dict[str, MatchedRows] = field(default_factory=dict)
    restaged: dict[str, RestagedFile] = field(default_factory=dict)
    moved: dict[str, frozenset[str]] = field(default_factory=dict)
    row_count: int = 0
    gone_count: int = 0  # rows this transaction deletes too and finds gone
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    means: set[str] = field(default_factory=set)
    compared: list[SharedFile] = field(default_factory=list)
    may_hold_copies: bool = False  # rows of whole files may be copies
    _drawn: bool = False

    def settle(self, path: str, rows: BitMap64, means: str) -> None:
        """Record that the rows removed at a path do not concern this transaction."""
        self.resolved_removes.add(path)
        self._note(path, rows, means)

    def clear(self, add: AddFile, rows: BitMap64, means: str) -> None:
        """Record that an added file holds no row this transaction should have read."""
        self.cleared_adds.add(add.key)
        self._note(add.path, rows, means)

    def conflict(self, path: str, rows: BitMap64, *, is_whole_file: bool = False) -> None:
        """Record rows both sides touch.

        Rows of a whole added or removed file that may be copies are not recorded: the path stays
        unresolved, and files decide.
        """
        if not (is_whole_file and self.may_hold_copies):
            self.matched_rows[path] = MatchedRows(tuple(rows[:ROWS_SHOWN]), len(rows))

    def compare(self, compared: ComparedFile) -> None:
        """Record a comparison in numbers, with positions for the first file with common rows.

        Until there is such a file, the positions are those of the first file.
        """
        if len(self.compared) >= FILES_SHOWN and (self._drawn or not compared.common):
            return
        with_rows = not self.compared or (bool(compared.common) and not self._drawn)
        self._drawn = self._drawn or bool(compared.common)
        self.compared.append(_summarize_file(compared, with_rows=with_rows))

    def _note(self, path: str, rows: BitMap64, means: str) -> None:
        self.row_count += len(rows)
        self.means.add(means)
        if rows and len(self.rows) < FILES_SHOWN:
            self.rows[path] = tuple(rows[:ROWS_SHOWN])

    def evidence(self) -> RowEvidence:
        """Return the evidence for the checks."""
        return RowEvidence(
            cleared_adds=frozenset(self.cleared_adds),
            resolved_removes=frozenset(self.resolved_removes),
            matched_rows=dict(self.matched_rows),
            subclass=Subclass.ROW_LEVEL_CHANGES if self.matched_rows else None,
            note="both writes concern the same rows" if self.matched_rows else UNTRACED,
            compared=tuple(self.compared),
        )


def _summarize_file(compared: ComparedFile, *, with_rows: bool) -> SharedFile:
    numbers = SharedFile(
        path=compared.file.path,
        version=compared.version,
        did="read" if compared.read else "changed",
        current_count=len(compared.current),
        winner_count=len(compared.winner),
        gone_before_count=len(compared.gone_before),
        common_count=len(compared.common),
        file_row_count=physical_rows(compared.file),
    )
    if not with_rows:
        return numbers
    return replace(
        numbers,
        current_rows=_spread(compared.current),
        winner_rows=_spread(compared.winner),
        gone_before_rows=_spread(compared.gone_before),
        common_rows=_spread(compared.common),
    )


def _spread(rows: BitMap64) -> tuple[int, ...]:
    count = len(rows)
    if count <= ROWS_DRAWN:
        return tuple(rows)
    return tuple(rows[place * count // ROWS_DRAWN] for place in range(ROWS_DRAWN))


def union(parts: Iterable[BitMap64]) -> BitMap64:
    """Unite several sets of rows."""
    rows = BitMap64()
    for part in parts:
        rows |= part
    return rows
