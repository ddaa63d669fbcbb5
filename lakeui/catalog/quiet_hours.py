"""A table's quiet hours, in which hardly anybody writes, derived from its commits.

Maintenance then overlaps with few writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count
from django.db.models.functions import ExtractHour, TruncDate

from lakeui.catalog.models import Table

DAYS, HOURS = 30, 24
WINDOW = 3
"""Hours in a row."""
FEWEST_COMMITS, FEWEST_DAYS = 20, 3


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `start` to `end` o'clock in UTC, `commits` of `all_commits` of `DAYS` days changed rows."""

    start: int
    commits: int
    all_commits: int

    @property
    def end(self) -> int:
        """The hour in which they end."""
        return (self.start + WINDOW) % HOURS

    @property
    def cron(self) -> str:
        """Every day in the middle of the quiet hours."""
        return f"0 {(self.start + WINDOW // 2) % HOURS} * * *"


def quiet_hours(table: Table, now: datetime) -> QuietHours | None:
    """Return the quiet hours; None for too few commits or evenly spread ones."""
    recent = table.commits.filter(changes_data=True, committed_at__gte=now - timedelta(days=DAYS))
    by_hour = recent.values_list(
        TruncDate("committed_at", tzinfo=UTC), ExtractHour("committed_at", tzinfo=UTC)
    )
    counts, days = [0] * HOURS, set()
    for day, hour, commits in by_hour.annotate(commits=Count("pk")).order_by():
        counts[hour] += commits
        days.add(day)
    total = sum(counts)
    if total < FEWEST_COMMITS or len(days) < FEWEST_DAYS:
        return None
    start = _quietest(counts)
    commits = sum(_window(counts, start, WINDOW))
    is_quiet = 2 * commits * HOURS < total * WINDOW
    return QuietHours(start, commits, total) if is_quiet else None


def _quietest(counts: Sequence[int]) -> int:
    """Return the window with the fewest commits; of equal ones, that with quieter surroundings."""

    def busy(start: int) -> tuple[int, ...]:
        around = (sum(_window(counts, start - by, WINDOW + 2 * by)) for by in range(1, HOURS // 2))
        return (sum(_window(counts, start, WINDOW)), *around)

    return min(range(HOURS), key=busy)


def _window(counts: Sequence[int], start: int, hours: int) -> list[int]:
    return [counts[(start + hour) % HOURS] for hour in range(min(hours, HOURS))]
