"""What conflicts cost: by pair of operations over 30 days, and by pair and hour over the last day."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncHour

from lakeui.conflicts.models import Conflict

DAYS = 30
MAX_PAIRS = 200
DAY = timedelta(hours=24)
LOST = (Conflict.Kind.ESCAPED, Conflict.Kind.REPORTED)
_Kind = Conflict.Kind


@dataclass(frozen=True, slots=True)
class PairCost:
    """Two operations that met, the one that lost or gave way first. Time and bytes are of lost ones."""

    loser: str
    winner: str
    escaped: int
    reported: int
    absorbed: int
    wasted_ms: int
    wasted_bytes: int

    @property
    def met(self) -> int:
        """How often the two met in the same files."""
        return self.escaped + self.reported + self.absorbed


@dataclass(frozen=True, slots=True)
class PairCosts:
    """The costliest pairs first, at most `MAX_PAIRS`; how many more there are."""

    pairs: tuple[PairCost, ...]
    more: int


def cost_by_pair(conflicts: QuerySet[Conflict], now: datetime) -> PairCosts:
    """Of the last 30 days, in one query that the index of sums answers."""
    past = now - timedelta(days=DAYS)
    since = conflicts.filter(occurred_at__gte=past, kind__in=_Kind.values).order_by()
    rows = since.values_list("current_operation", "winner_operation").annotate(
        escaped=Count("pk", filter=Q(kind=_Kind.ESCAPED)),
        reported=Count("pk", filter=Q(kind=_Kind.REPORTED)),
        absorbed=Count("pk", filter=Q(kind=_Kind.ABSORBED)),
        ms=Sum("wasted_ms", filter=Q(kind__in=LOST), default=0),
        size=Sum("wasted_bytes", filter=Q(kind__in=LOST), default=0),
    )
    found = [PairCost(*row) for row in rows]
    found.sort(key=lambda pair: (-pair.wasted_ms, -pair.escaped, -pair.absorbed, pair.loser))
    return PairCosts(tuple(found[:MAX_PAIRS]), max(0, len(found) - MAX_PAIRS))


def cost_by_hour(
    conflicts: QuerySet[Conflict], now: datetime
) -> Mapping[tuple[str, datetime], int]:
    """Milliseconds thrown away in the last 24 hours, by pair and full hour."""
    lost = conflicts.filter(occurred_at__gte=now - DAY, kind__in=LOST).order_by()
    rows = (
        lost.annotate(hour=TruncHour("occurred_at", tzinfo=UTC))
        .values_list("current_operation", "winner_operation", "hour")
        .annotate(ms=Sum("wasted_ms"))
    )
    return {
        (f"{loser or '?'} \N{MULTIPLICATION SIGN} {winner or '?'}", hour): ms
        for loser, winner, hour, ms in rows
    }
