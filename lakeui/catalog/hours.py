"""Commits by the hour, in UTC: sums of all tables, and the quiet hours of one.

Counting ten million rows takes a second; a month of hours is 720 rows. The mirror updates the sums
with the commits that it writes, in the same transaction. In the quiet hours of a table hardly
anybody writes, so maintenance then overlaps with few writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import CharField, Count, Func, QuerySet, Sum
from django.db.models.functions import ExtractHour, Substr, TruncDate

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.models import Commit, CommitHour, Table
from lakeui.catalog.new_rows import NewRow, add_to

DAYS, HOURS = 30, 24
WINDOW = 3
"""Hours in a row."""
FEWEST_COMMITS, FEWEST_DAYS = 20, 3

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time up to now that all panels of a page show; `step` is the width of a column."""

    name: str
    span: timedelta
    step: timedelta

    def start(self, now: datetime) -> datetime:
        """Return the start of the range."""
        return now - self.span

    def column(self, field: str) -> Func:
        """Return the hour or day of a time, in UTC, as text that `column_named` reads."""
        length = len("2026-11-22") if self.step == _DAY else len("2026-11-22 09")
        return Substr(UtcHour(field), 1, length)

    def columns(self, now: datetime) -> list[datetime]:
        """Return the hours or days of the range, in UTC; the first one may lie in it only partly."""
        first, step = self.column_of(self.start(now)), self.step
        return [first + step * place for place in range((now - first) // step + 1)]

    def column_of(self, moment: datetime) -> datetime:
        """Return the start of the hour or day of a time."""
        hour = _hour(moment)
        return hour.replace(hour=0) if self.step == _DAY else hour


def column_named(text: str) -> datetime:
    """Return the start of an hour or a day from its text."""
    return hour_named(text if " " in text else f"{text} 00")


RANGES: Mapping[str, TimeRange] = {
    time_range.name: time_range
    for time_range in (
        TimeRange("24h", _DAY, timedelta(hours=1)),
        TimeRange("7d", 7 * _DAY, _DAY),
        TimeRange("30d", 30 * _DAY, _DAY),
    )
}
"""The ranges that pages and REST offer; the first is the one shown if none is named."""


CLOCKS_DIFFER = timedelta(minutes=1)
"""The largest difference between synchronized clocks."""

_READ_AS = "%Y-%m-%d %H"


@dataclass(frozen=True, slots=True)
class CommitSums:
    """A number of commits, and the sizes of their added and removed files."""

    commits: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def __add__(self, other: "CommitSums") -> "CommitSums":
        return CommitSums(
            self.commits + other.commits,
            self.bytes_added + other.bytes_added,
            self.bytes_removed + other.bytes_removed,
        )

    def __neg__(self) -> "CommitSums":
        return CommitSums(-self.commits, -self.bytes_added, -self.bytes_removed)


def commits_since(user: Person, since: datetime) -> int:
    """Count commits on visible tables: whole hours from the sums, the rest one by one."""
    if role_of(user) is None:
        return Commit.objects.filter(
            table__in=visible_tables(user), committed_at__gte=since
        ).count()
    whole = _hour(since) if since == _hour(since) else _hour(since) + timedelta(hours=1)
    hours = CommitHour.objects.filter(hour__gte=whole)
    rest = Commit.objects.filter(committed_at__gte=since, committed_at__lt=whole)
    return int(hours.aggregate(n=Sum("commits", default=0))["n"]) + rest.count()


def growth_since(user: Person, since: datetime) -> int | None:
    """Return the bytes added less those removed by commits, in the whole hours since.

    Return None for a person without a role on every table: the sums do not separate tables.
    """
    if role_of(user) is None:
        return None
    hours = CommitHour.objects.filter(hour__gte=_hour(since))
    totals = hours.aggregate(
        plus=Sum("bytes_added", default=0), minus=Sum("bytes_removed", default=0)
    )
    return int(totals["plus"]) - int(totals["minus"])


def count_in(commits: Iterable[NewRow]) -> None:
    """Add rows of commits just written to their hours."""
    by_hour: dict[datetime, CommitSums] = {}
    for commit in commits:
        if commit["committed_at"] is not None:
            hour = _hour(commit["committed_at"])
            one = CommitSums(1, commit["bytes_added"], commit["bytes_removed"])
            by_hour[hour] = by_hour.get(hour, CommitSums()) + one
    for hour, sums in sorted(by_hour.items()):
        add_to(CommitHour, {"hour": hour}, asdict(sums))


def count_out(table: Table) -> None:
    """Take a table's commits out of the sums, before its rows go."""
    for hour, sums in _sum_by_hour(Commit.objects.filter(table=table)):
        add_to(CommitHour, {"hour": hour}, asdict(-sums))


def recount() -> None:
    """Recompute all hours from the mirrored commits."""
    by_hour = _sum_by_hour(Commit.objects.all())
    with transaction.atomic():
        CommitHour.objects.all().delete()
        CommitHour.objects.bulk_create(
            CommitHour(hour=hour, **asdict(sums)) for hour, sums in by_hour
        )


def _sum_by_hour(commits: QuerySet[Commit]) -> list[tuple[datetime, CommitSums]]:
    dated = commits.filter(committed_at__isnull=False).order_by()
    hours = dated.annotate(hour=UtcHour("committed_at")).values_list("hour")
    rows = hours.annotate(n=Count("pk"), plus=Sum("bytes_added"), minus=Sum("bytes_removed"))
    return [(hour_named(hour), CommitSums(*sums)) for hour, *sums in rows]


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


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
        """The cron text for the middle of the quiet hours, every day."""
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


class UtcHour(Func):
    """The hour of a time, as text that sorts: `2026-11-22 09`.

    SQLite stores times as such text. Django's truncation would call Python for each row.
    """

    template = "to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24')"
    output_field = CharField()
    arity = 1

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:  # noqa: ANN401
        """Cut it out."""
        return self.as_sql(
            compiler, connection, template="substr(%(expressions)s, 1, 13)", **context
        )


@lru_cache(maxsize=2_048)
def hour_named(text: str) -> datetime:
    """Return the start of an hour from its text."""
    return datetime.strptime(text, _READ_AS).replace(tzinfo=UTC)
