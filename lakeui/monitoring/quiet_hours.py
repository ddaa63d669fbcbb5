"""Hours of the day in which nobody writes to a table: when a change of its metadata costs nothing."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import Commit

DAYS = 7
_HOURS = 24


def quiet_hours(tables: Collection[int], now: datetime) -> Mapping[int, tuple[int, int]]:
    """Of a few tables the longest span without a commit in 7 days, as hours in UTC: (4, 6).

    A table that is written to at every hour, or at none, has no such span.
    """
    recent = Commit.objects.filter(
        table__in=tables or (0,), committed_at__gte=now - timedelta(DAYS)
    )
    busy: dict[int, set[int]] = {}
    hours = recent.annotate(hour=UtcHour("committed_at")).order_by()
    for table, hour in hours.values_list("table_id", "hour").distinct():
        busy.setdefault(table, set()).add(hour_named(hour).hour)
    found = {table: _longest(hours) for table, hours in busy.items()}
    return {table: span for table, span in found.items() if span is not None}


def _longest(busy: Iterable[int]) -> tuple[int, int] | None:
    """Round the clock: a span may begin before midnight and end after it."""
    ordered = sorted(busy)
    gaps = [
        ((later - hour - 1) % _HOURS, (hour + 1) % _HOURS, later)
        for hour, later in zip(ordered, [*ordered[1:], ordered[0]], strict=True)
    ]
    length, begin, end = max(gaps)
    return (begin, end) if length else None
