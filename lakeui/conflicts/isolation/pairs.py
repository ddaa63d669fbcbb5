"""The checker's verdict on two statements on a table like this one, beside observed conflicts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.matrix import MatrixCell, conflict_matrix, statement_matrix
from engine.conflicts.sample_table import TableSetting
from engine.vocabulary import StatementKind
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.isolation.observed_pairs import ObservedPair
from lakeui.conflicts.isolation.overlaps import Overlaps
from lakeui.conflicts.statements.kinds import (
    DELETE,
    INSERT,
    KINDS,
    MERGE,
    OPTIMIZE,
    UPDATE,
    ZORDER,
    statement_kind,
)

_STATEMENTS = {
    INSERT: StatementKind.INSERT,
    UPDATE: StatementKind.UPDATE,
    DELETE: StatementKind.DELETE,
    MERGE: StatementKind.MERGE,
    OPTIMIZE: StatementKind.OPTIMIZE,
    ZORDER: StatementKind.ZORDER,
}
ROWS, COLUMNS = tuple(_STATEMENTS), KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCell:
    """Two kinds of statement: the verdict now, the one under other settings, and the overlaps.

    `preview` is None if the verdict stays. A recorded conflict is an overlap, whether or not the
    commits around it are mirrored.
    """

    current: str
    winner: str
    verdict: Verdict
    preview: Verdict | None
    exceptions: tuple[str, ...]
    overlap_count: int
    resolved: int
    aborted: int


def table_matrix(
    table: Table, other: TableSetting, overlaps: Overlaps, pairs: Iterable[ObservedPair]
) -> tuple[PairCell, ...]:
    """Return every pair on this table, now and under another setting, beside overlaps."""
    now, then = _map_by_statements(build_setting(table)), _map_by_statements(other)
    return tuple(_cells(now, then, overlaps, _count_outcomes(pairs)))


def compute_matrix(table: Table, level: IsolationLevel | None = None) -> tuple[MatrixCell, ...]:
    """Compute every pair of statements for a table of this level, layout and features."""
    return _matrix(build_setting(table, level))


@lru_cache(maxsize=32)
def _matrix(setting: TableSetting) -> tuple[MatrixCell, ...]:
    return tuple(conflict_matrix(setting))


@lru_cache(maxsize=32)
def _map_by_statements(setting: TableSetting) -> Mapping[tuple[str, str], MatrixCell]:
    return {(cell.current, cell.winner): cell for cell in statement_matrix(setting)}


def _cells(
    now: Mapping[tuple[str, str], MatrixCell],
    then: Mapping[tuple[str, str], MatrixCell],
    overlaps: Overlaps,
    seen: Mapping[tuple[str, str], tuple[int, int]],
) -> Iterator[PairCell]:
    for current in ROWS:
        for winner in COLUMNS:
            key = (_STATEMENTS[current], _STATEMENTS.get(winner, winner))
            cell, after = now[key], then[key].verdict
            resolved, aborted = seen.get((current, winner), (0, 0))
            yield PairCell(
                current=current,
                winner=winner,
                verdict=cell.verdict,
                preview=after if after is not cell.verdict else None,
                exceptions=cell.exceptions,
                overlap_count=max(overlaps.counts.get((current, winner), 0), resolved + aborted),
                resolved=resolved,
                aborted=aborted,
            )


def _count_outcomes(pairs: Iterable[ObservedPair]) -> dict[tuple[str, str], tuple[int, int]]:
    """Count the resolved and the aborted, by the kinds of both sides."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for pair in pairs:
        key = (statement_kind(pair.current_operation), statement_kind(pair.winner_operation))
        resolved, aborted = counts.get(key, (0, 0))
        counts[key] = (resolved + pair.resolved, aborted + pair.aborted + pair.reported)
    return counts
