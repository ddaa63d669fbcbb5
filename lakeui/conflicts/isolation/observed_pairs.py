"""Pairs of operations that conflicted on a table, with their ends and costs."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Max, Q, Sum
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict

DEFAULT_DAYS = 30


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
