"""Mirrored commits in each hour, of all tables together: their number and size.

Counting ten million rows takes a second; a month of hours is 720 rows. The mirror updates them with
the commits that it writes, in the same transaction.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Count, QuerySet, Sum

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import Commit, CommitHour, Table
from lakeui.catalog.new_rows import NewRow
from lakeui.catalog.stored_sums import add_to


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
