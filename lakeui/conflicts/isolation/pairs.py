"""Pairs of operations on a table: the checker's verdict, and the conflicts observed.

The verdict is about two statements on a table like this one. Observed conflicts come with their
ends and costs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from django.db.models import Count, Max, Q, Sum
from django.utils import timezone

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.forecast import MatrixCell, conflict_matrix, statement_matrix
from engine.conflicts.predict.sample_table import TableSetting
from engine.vocabulary import StatementKind
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.isolation.overlaps import Overlaps
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.text import (
    DELETE,
    INSERT,
    KINDS,
    MERGE,
    OPTIMIZE,
    UPDATE,
    ZORDER,
    statement_kind,
)

DEFAULT_DAYS = 30

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
class ObservedPair:
    """A pair of operations, the aborted or rebased one first. `example_id`: the latest conflict."""

    current_operation: str
    winner_operation: str
    aborted: int
    resolved: int
    reported: int
    wasted_ms: int
    wasted_bytes: int
    example_id: int


def list_observed_pairs(table: Table, days: int = DEFAULT_DAYS) -> tuple[ObservedPair, ...]:
    """Return the pairs that conflicted in the last days, the most costly first."""
    since = timezone.now() - timedelta(days=days)
    kinds = Conflict.Kind
    rows = (
        table.conflicts.filter(occurred_at__gte=since)
        .values("current_operation", "winner_operation")
        .annotate(
            aborted=Count("id", filter=Q(kind=kinds.ABORTED)),
            resolved=Count("id", filter=Q(kind=kinds.RESOLVED)),
            reported=Count("id", filter=Q(kind=kinds.REPORTED)),
            ms=Sum("wasted_ms"),
            size=Sum("wasted_bytes"),
            example=Max("id"),
        )
        .order_by("-aborted", "-reported", "-resolved", "current_operation", "winner_operation")
    )
    return tuple(
        ObservedPair(
            current_operation=row["current_operation"],
            winner_operation=row["winner_operation"],
            aborted=row["aborted"],
            resolved=row["resolved"],
            reported=row["reported"],
            wasted_ms=row["ms"] or 0,
            wasted_bytes=row["size"] or 0,
            example_id=row["example"],
        )
        for row in rows
    )


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
