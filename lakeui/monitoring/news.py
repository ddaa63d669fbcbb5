"""What is new table by table since a moment: versions, lost writes, failed jobs."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.filters import count_by_table
from lakeui.catalog.models import HEAVY, Commit, Table
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.monitoring.losses import lost_since, met_by

_MOST_NAMED = 1_000  # tables by number, in one question


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is new on one table since a moment. `first` and `last` are its new versions."""

    table: Table
    commits: int
    first: int | None
    last: int | None
    escaped: int
    absorbed: int
    failed_jobs: int


@dataclass(frozen=True, slots=True)
class AllNews:
    """The first few tables with news; how many there are, and how many of them lost a write."""

    first: list[News]
    table_count: int
    losing_tables: int


def news(user: Person, since: datetime, count: int) -> AllNews:
    """The tables with something new, those that failed or lost first."""
    failed = visible_jobs(user).filter(state=Job.State.FAILED, finished_at__gte=since).order_by()
    losses, failures = count_by_table(lost_since(user, since)), count_by_table(failed)
    visible, is_new = visible_tables(user).defer(*HEAVY), Q(last_commit_at__gte=since)
    changed = visible.filter(is_new)
    worst = {*_most(failures, count), *_most(losses, count)}
    tables = list(visible.filter(pk__in=worst))
    if len(tables) < count:
        rest = changed.exclude(pk__in=worst).order_by("-last_commit_at")
        tables += list(rest[: count - len(tables)])
    met, versions = met_by(tables, since), _versions_since(tables, since)
    rows = [
        News(
            table=table,
            **versions.get(table.pk, {"commits": 0, "first": None, "last": None}),
            escaped=losses[table.pk],
            absorbed=met[table.pk]["absorbed"],
            failed_jobs=failures[table.pk],
        )
        for table in tables
    ]
    rows.sort(key=lambda row: (-row.failed_jobs, -row.escaped))
    unchanged = visible.exclude(is_new).order_by()
    told = changed.order_by().count() + _count_among(unchanged, {*losses, *failures})
    return AllNews(first=rows[:count], table_count=told, losing_tables=len(losses))


def _count_among(tables: QuerySet[Table], named: Collection[int]) -> int:
    """How many of those named are among these tables; by number where few are named."""
    if len(named) <= _MOST_NAMED:
        return tables.filter(pk__in=named).count()
    return len({*named} & {*tables.values_list("pk", flat=True)})


def _most(counted: Counter[int], count: int) -> list[int]:
    """The tables that have most."""
    return sorted(counted, key=lambda table_id: (-counted[table_id], table_id))[:count]


def _versions_since(tables: list[Table], since: datetime) -> dict[int, dict[str, Any]]:
    grouped = (
        Commit.objects.filter(table__in=tables, committed_at__gte=since)
        .order_by()
        .values_list("table_id")
        .annotate(n=Count("pk"), first=Min("version"), last=Max("version"))
    )
    return {
        table_id: {"commits": n, "first": first, "last": last}
        for table_id, n, first, last in grouped
    }
