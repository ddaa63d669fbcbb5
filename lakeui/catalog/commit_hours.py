"""How many commits the mirror saw land in each hour, of all tables together.

Counting ten million rows takes a second; a month of hours is 720 rows. The mirror adds to them with
the commits it writes, in the same transaction.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Count, F, QuerySet, Sum
from django.db.models.functions import TruncHour

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.models import Commit, CommitHour, Table


def commits_since(user: Person, since: datetime) -> int:
    """Commits on the tables a person may see: whole hours from the sums, what is left one by one."""
    if role_of(user) is None:
        return Commit.objects.filter(
            table__in=visible_tables(user), committed_at__gte=since
        ).count()
    whole = _hour(since) if since == _hour(since) else _hour(since) + timedelta(hours=1)
    hours = CommitHour.objects.filter(hour__gte=whole)
    rest = Commit.objects.filter(committed_at__gte=since, committed_at__lt=whole)
    return int(hours.aggregate(n=Sum("commits", default=0))["n"]) + rest.count()


def count_in(commits: Iterable[Commit]) -> None:
    """Add commits just written to their hours."""
    found = Counter(_hour(each.committed_at) for each in commits if each.committed_at is not None)
    for hour, number in sorted(found.items()):
        _add(hour, number)


def count_out(table: Table) -> None:
    """Take a table's commits out of the sums, before its rows go."""
    for hour, number in _by_hour(Commit.objects.filter(table=table)):
        _add(hour, -number)


def recount() -> None:
    """All hours anew, from the commits that are there."""
    found = _by_hour(Commit.objects.all())
    with transaction.atomic():
        CommitHour.objects.all().delete()
        CommitHour.objects.bulk_create(CommitHour(hour=hour, commits=n) for hour, n in found)


def _by_hour(commits: QuerySet[Commit]) -> list[tuple[datetime, int]]:
    dated = commits.filter(committed_at__isnull=False).order_by()
    hours = dated.annotate(hour=TruncHour("committed_at", tzinfo=UTC)).values_list("hour")
    return list(hours.annotate(n=Count("pk")))


def _add(hour: datetime, number: int) -> None:
    """Two workers may meet at an hour that neither finds."""
    row = CommitHour.objects.filter(hour=hour)
    if row.update(commits=F("commits") + number):
        return
    try:
        with transaction.atomic():
            CommitHour.objects.create(hour=hour, commits=max(number, 0))
    except IntegrityError:
        row.update(commits=F("commits") + number)


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
