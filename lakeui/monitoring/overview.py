"""The lake's activity since a time, for the first page and its REST twin.

However many tables and versions there are, each question is answered from an index or from the
mirror's hourly sums: nothing here scans all commits.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, Sum

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.commit_hours import commits_since, growth_since
from lakeui.catalog.health import Health
from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import Commit, Table
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.monitoring.recent_conflicts import (
    DAY,
    ConflictsOfDay,
    ConflictSums,
    conflict_sums,
    sums_of_day,
)
from lakeui.monitoring.table_health import annotate_health

Hours = Mapping[datetime, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """Sums over the tables a person may see; `ill_count` leaves out those not read yet."""

    table_count: int
    size_bytes: int
    file_count: int
    eligible_count: int
    unhealthy_count: int
    ill_count: int
    no_row_level_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Activity since a time; `growth_bytes` in whole hours, None if hidden tables prevent the sum.

    `job_count` counts the jobs requested since then, `failed_job_count` those that failed since
    then.
    """

    since: datetime
    commit_count: int
    growth_bytes: int | None
    conflicts: ConflictSums
    job_count: int
    failed_job_count: int


def lake_of(user: Person) -> Lake:
    """Sum the tables' own rows in one pass."""
    tables = annotate_health(visible_tables(user)).order_by()
    sums = tables.aggregate(
        table_count=Count("pk"),
        size_bytes=Sum("size_bytes", default=0),
        file_count=Sum("file_count", default=0),
        eligible_count=Count("pk", Q(row_level_eligible=True)),
        unhealthy_count=Count("pk", ~Q(health=Health.HEALTHY)),
        ill_count=Count("pk", ~Q(health__in=(Health.HEALTHY, Health.PENDING))),
        no_row_level_count=Count("pk", Q(row_level_eligible=False, version__isnull=False)),
    )
    return Lake(**sums)


def activity(user: Person, since: datetime, day: ConflictsOfDay) -> Activity:
    """Sum commits, conflicts and jobs."""
    jobs = visible_jobs(user).order_by()
    return Activity(
        since=since,
        commit_count=commits_since(user, since),
        growth_bytes=growth_since(user, since),
        conflicts=sums_of_day(user, day) if since == day.since else conflict_sums(user, since),
        job_count=jobs.filter(created_at__gte=since).count(),
        failed_job_count=jobs.filter(state=Job.State.FAILED, finished_at__gte=since).count(),
    )


def commits_by_hour(tables: list[Table], now: datetime) -> Mapping[int, Hours]:
    """Count the commits of a few tables in the last 24 hours by hour."""
    grouped = (
        Commit.objects.filter(table__in=tables, committed_at__gte=now - DAY)
        .annotate(hour=UtcHour("committed_at"))
        .order_by()
        .values_list("table_id", "hour")
        .annotate(n=Count("pk"))
    )
    counts: dict[int, dict[datetime, int]] = defaultdict(dict)
    for table_id, hour, n in grouped:
        counts[table_id][hour_named(hour)] = n
    return counts
