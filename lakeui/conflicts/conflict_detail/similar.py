"""Losses like one: of the same write on the same table, in the 30 days up to it; and its neighbours."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet

from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import JobAttempt

DAYS = 30
MAX_SIMILAR = 200
_COMMITTED, _RUNNING = JobAttempt.Outcome.COMMITTED, JobAttempt.Outcome.RUNNING
_FIELDS = (
    "pk", "occurred_at", "winning_version", "winner_operation", "winner_user_name", "row_count",
    "rule", "wasted_ms", "order_column", "shared_low", "shared_high",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SimilarConflict:
    """A similar conflict for a row. `passed_again`: its next attempt committed; None: none was."""

    pk: int
    occurred_at: datetime
    winning_version: int | None
    winner_operation: str
    winner_user_name: str
    row_count: int | None
    rule: str
    wasted_ms: int
    order_column: str
    shared_low: str
    shared_high: str
    passed_again: bool | None = None


@dataclass(frozen=True, slots=True)
class SimilarConflicts:
    """The latest of them, itself included; `is_capped` if there were more than are read."""

    conflicts: tuple[SimilarConflict, ...]
    is_capped: bool

    @property
    def count(self) -> int:
        return len(self.conflicts)


def similar_conflicts(visible: QuerySet[Conflict], conflict: Conflict) -> SimilarConflicts:
    """Return conflicts with the same end, operation and writer, in two queries."""
    same = visible.filter(
        table=conflict.table_id,
        kind=conflict.kind,
        current_operation=conflict.current_operation,
        current_user_name=conflict.current_user_name,
        occurred_at__gt=conflict.occurred_at - timedelta(days=DAYS),
        occurred_at__lte=conflict.occurred_at,
    )
    rows = list(same.order_by("-occurred_at", "-pk").values(*_FIELDS)[: MAX_SIMILAR + 1])
    again = _retry_outcomes(same.filter(pk__in=[row["pk"] for row in rows]))
    conflicts = (
        SimilarConflict(**row, passed_again=again.get(row["pk"])) for row in rows[:MAX_SIMILAR]
    )
    return SimilarConflicts(tuple(conflicts), len(rows) > MAX_SIMILAR)


@dataclass(frozen=True, slots=True)
class NeighborConflicts:
    """The previous and the next conflict of that kind on the table."""

    previous: int | None
    next: int | None


def neighbours(visible: QuerySet[Conflict], conflict: Conflict) -> NeighborConflicts:
    """Return the conflicts before and after one in time, in two queries."""
    same = visible.filter(table=conflict.table_id, kind=conflict.kind).order_by("occurred_at", "pk")
    now, pk = conflict.occurred_at, conflict.pk
    earlier = Q(occurred_at__lt=now) | Q(occurred_at=now, pk__lt=pk)
    later = Q(occurred_at__gt=now) | Q(occurred_at=now, pk__gt=pk)
    return NeighborConflicts(
        same.filter(earlier).values_list("pk", flat=True).last(),
        same.filter(later).values_list("pk", flat=True).first(),
    )


def _retry_outcomes(same: QuerySet[Conflict]) -> Mapping[int, bool]:
    """Return by conflict whether the next attempt committed, for those whose next attempt ended."""
    tried = same.filter(job__attempt_rows__number=F("attempt") + 1)
    rows = tried.order_by("-occurred_at").values_list("pk", "job__attempt_rows__outcome")
    return {pk: outcome == _COMMITTED for pk, outcome in rows[:MAX_SIMILAR] if outcome != _RUNNING}
