"""The news of each table since a time: versions, aborted writes, failed jobs."""

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet
from django.db.models.functions import Coalesce

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.filters import count_by_table, most_by_table
from lakeui.catalog.models import HEAVY, Commit, Table
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.monitoring.recent_conflicts import conflicts_by_table, list_aborted_since


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNews:
    """The news of one table since a time. `first` and `last` are its new versions."""

    table: Table
    commits: int
    first: int | None
    last: int | None
    aborted: int
    resolved: int
    failed_jobs: int


@dataclass(frozen=True, slots=True)
class AllNews:
    """The first few tables with news; their number, and the number with an aborted write."""

    first: list[TableNews]
    table_count: int
    tables_with_aborts: int


def news(user: Person, since: datetime, count: int) -> AllNews:
    """Return the tables with news, those with a failure or an aborted write first."""
    failed = visible_jobs(user).filter(state=Job.State.FAILED, finished_at__gte=since).order_by()
    aborted = list_aborted_since(user, since)
    visible, is_new = visible_tables(user).defer(*HEAVY), Q(last_commit_at__gte=since)
    changed = visible.filter(is_new)
    (aborting, tables_with_aborts), (failing, _) = (
        most_by_table(aborted, count),
        most_by_table(failed, count),
    )
    worst = {*aborting, *failing}
    tables = list(visible.filter(pk__in=worst))
    if len(tables) < count:
        rest = changed.exclude(pk__in=worst).order_by("-last_commit_at")
        tables += list(rest[: count - len(tables)])
    conflicts, versions = conflicts_by_table(tables, since), _versions_since(tables, since)
    failures = count_by_table(failed.filter(table__in=tables))
    rows = [
        TableNews(
            table=table,
            **versions.get(table.pk, {"commits": 0, "first": None, "last": None}),
            aborted=conflicts[table.pk]["aborted"],
            resolved=conflicts[table.pk]["resolved"],
            failed_jobs=failures[table.pk],
        )
        for table in tables
    ]
    rows.sort(key=lambda row: (-row.failed_jobs, -row.aborted))
    told = changed.order_by().count() + _count_among(visible.exclude(is_new), aborted, failed)
    return AllNews(first=rows[:count], table_count=told, tables_with_aborts=tables_with_aborts)


def _count_among(tables: QuerySet[Table], *rows: QuerySet[Any]) -> int:
    """Count those of these tables that have any of these rows.

    The query is by a computed value: by the key itself, SQLite lists the rows before it knows
    whether there is any table to search for.
    """
    of_any = [Q(own_pk__in=some.values("table")) for some in rows]
    among = tables.alias(own_pk=Coalesce("pk", 0)).filter(reduce(or_, of_any))
    return among.order_by().count()


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
