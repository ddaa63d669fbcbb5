"""The cost of conflicts: by pair of operations, and by pair and hour over the last day."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.conflicts.models import Conflict

DAY = timedelta(hours=24)
AS_FOUND = (Coalesce("current_operation", Value("")), Coalesce("winner_operation", Value("")))
"""A pair, grouped by computed values.

SQLite then uses the filter's index, instead of scanning all conflicts in the index of pairs.
"""
_COUNTED = ("aborted", "reported", "resolved", "wasted_ms", "wasted_bytes")


@dataclass(frozen=True, slots=True)
class PairCost:
    """The operations of two conflicting writes, with this transaction's first, and their cost.

    `wasted_ms` and `wasted_bytes` are of aborted writes.
    """

    current: str
    winner: str
    aborted: int
    reported: int
    resolved: int
    wasted_ms: int
    wasted_bytes: int

    @property
    def conflict_count(self) -> int:
        """How many conflicts the two operations had."""
        return self.aborted + self.reported + self.resolved


@dataclass(frozen=True, slots=True)
class PairCosts:
    """Every pair, the costliest first, and their sum."""

    pairs: tuple[PairCost, ...]

    @property
    def total(self) -> PairCost:
        """The costs of all pairs together."""
        sums = {name: sum(getattr(pair, name) for pair in self.pairs) for name in _COUNTED}
        return PairCost("", "", **sums)


def cost_by_pair(conflicts: QuerySet[Conflict]) -> PairCosts:
    """Return the cost of these conflicts, in one query on an index of sums."""
    pair = AS_FOUND if conflicts.query.where else ("current_operation", "winner_operation")
    grouped = (
        conflicts.order_by()
        .values_list(*pair, "kind")
        .annotate(n=Count("pk"), ms=Sum("wasted_ms"), size=Sum("wasted_bytes"))
    )
    costs: dict[tuple[str, str], dict[str, int]] = {}
    for current, winner, kind, n, ms, size in grouped:
        cost = costs.setdefault((current, winner), dict.fromkeys(_COUNTED, 0))
        cost[kind] = n
        if kind in Conflict.ABORTED_KINDS:
            cost["wasted_ms"] += ms
            cost["wasted_bytes"] += size
    pairs = [PairCost(current, winner, **cost) for (current, winner), cost in costs.items()]
    pairs.sort(key=lambda pair: (-pair.wasted_ms, -pair.aborted, -pair.resolved, pair.current))
    return PairCosts(tuple(pairs))


def cost_by_hour(
    conflicts: QuerySet[Conflict], now: datetime
) -> Mapping[tuple[str, datetime], int]:
    """Milliseconds wasted in the last 24 hours, by pair and full hour."""
    aborted = conflicts.filter(
        occurred_at__gte=now - DAY, kind__in=Conflict.ABORTED_KINDS
    ).order_by()
    rows = (
        aborted.annotate(hour=UtcHour("occurred_at"))
        .values_list(*AS_FOUND, "hour")
        .annotate(ms=Sum("wasted_ms"))
    )
    return {
        (f"{current or '?'} \N{MULTIPLICATION SIGN} {winner or '?'}", hour_named(hour)): ms
        for current, winner, hour, ms in rows
    }
