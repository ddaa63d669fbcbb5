"""The lake at a glance, for the first page and its REST twin.

It covers activity and news since a time, running and next jobs, the tables in the requested order,
and the first steps on an installation. However many tables and versions there are, each question is
answered from an index or from the mirror's hourly sums: nothing here scans all commits.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from lakeui.catalog.access import Person, may, visible_tables
from lakeui.catalog.filters import count_by_table, most_by_table
from lakeui.catalog.health import Health
from lakeui.catalog.hours import UtcHour, commits_since, growth_since, hour_named
from lakeui.catalog.models import HEAVY, Commit, Table
from lakeui.conflicts.models import Pipeline
from lakeui.jobs.earlier_runs import UsualRun, usual_runs_of
from lakeui.jobs.filters import visible_jobs, visible_schedules
from lakeui.jobs.models import Job, JobAttempt, Schedule
from lakeui.monitoring.attention_items import NONE
from lakeui.monitoring.recent_conflicts import (
    DAY,
    ConflictsOfDay,
    ConflictSums,
    conflict_sums,
    conflicts_by_table,
    list_aborted_since,
    sums_of_day,
)
from lakeui.monitoring.table_health import annotate_health, select_aborted_tables

Hours = Mapping[datetime, int]

SHOWS = ("attention", "aborted", "no_row_level")
_COLUMNS = {
    "name": "name",
    "version": "version",
    "last_commit": "last_commit_at",
    "size": "size_bytes",
    "files": "file_count",
    "small_files": "small_file_count",
}
SORTS = frozenset({*_COLUMNS, *(f"-{name}" for name in _COLUMNS), "-aborted"})
_FINE = (Health.HEALTHY, Health.PENDING)
_MOST_NAMED = 1_000  # tables by number, in one question

MOST_RUNNING, MOST_NEXT = 12, 4
_SHOWN = (
    "kind", "state", "dry_run", "attempts", "created_at", "started_at", "finished_at",
    "progress_stage", "progress_done", "progress_total", "progress_unit", "committed_version", "cancel_requested_at", "table__name",
)  # fmt: skip
_OF_A_SCHEDULE = ("name", "kind", "next_due_at", "table__name", "owner__username")


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


def list_leading_tables(
    user: Person, day: ConflictsOfDay, count: int, *, show: str = "", sort: str = "-aborted"
) -> list[Any]:
    """List tables with their health; by default those with most aborted writes in the day first."""
    tables = annotate_health(visible_tables(user)).defer(*HEAVY)
    narrowed = tables.filter(_matches(show, day)) if show else tables
    if sort == "-aborted":
        return _worst_first(narrowed, day, count)
    backwards, name = sort.startswith("-"), sort.removeprefix("-")
    column = F(_COLUMNS[name])
    order = column.desc(nulls_last=True) if backwards else column.asc(nulls_last=True)
    return list(narrowed.order_by(order, "name")[:count])


def table_counts(user: Person, day: ConflictsOfDay, whole: Lake) -> dict[str, int]:
    """Count the tables of each filter, using the sums of one pass over all."""
    aborted = sorted(many_aborted(day))[:_MOST_NAMED]
    fine = annotate_health(visible_tables(user)).filter(pk__in=aborted or NONE, health__in=_FINE)
    return {
        "attention": whole.ill_count + fine.count(),
        "aborted": len(_count_aborted_by_table(day)),
        "no_row_level": whole.no_row_level_count,
    }


def many_aborted(day: ConflictsOfDay) -> set[int]:
    """Return the tables with enough aborted writes in the day to need attention."""
    return select_aborted_tables(_count_aborted_by_table(day))


def _matches(show: str, day: ConflictsOfDay) -> Q:
    if show == "no_row_level":
        return Q(row_level_eligible=False, version__isnull=False)
    if show == "aborted":
        return Q(pk__in=_worst(day, _MOST_NAMED))
    return ~Q(health__in=_FINE) | Q(pk__in=sorted(many_aborted(day))[:_MOST_NAMED])


def _worst_first(tables: "QuerySet[Any]", day: ConflictsOfDay, count: int) -> list[Any]:
    aborted, worst = _count_aborted_by_table(day), _worst(day, count)
    leading = sorted(tables.filter(pk__in=worst), key=lambda t: (-aborted[t.pk], t.name))
    if len(leading) < count:
        leading += list(tables.exclude(pk__in=worst).order_by("name")[: count - len(leading)])
    return leading


def _worst(day: ConflictsOfDay, count: int) -> list[int]:
    aborted = _count_aborted_by_table(day)
    return sorted(aborted, key=lambda pk: (-aborted[pk], pk))[:count]


def _count_aborted_by_table(day: ConflictsOfDay) -> dict[int, int]:
    return {
        pk: conflicts.aborted for pk, conflicts in day.by_table.items() if pk and conflicts.aborted
    }


class FirstStepKind(StrEnum):
    """The first steps, in order."""

    TABLE = "table"
    SCHEDULE = "schedule"
    PROGRAM = "program"
    INVITE = "invite"


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step, and whether it is done."""

    step: FirstStepKind
    done: bool


def first_steps(user: User) -> list[FirstStep]:
    """Return the steps until all are done; none afterwards, or for people who may not take them."""
    if not may(user, "maintain"):
        return []
    people = User.objects.filter(is_active=True)
    (done,) = people.filter(pk=user.pk).values_list(
        Exists(Table.objects.filter(version__isnull=False)),
        Exists(Schedule.objects.all()),
        Exists(Pipeline.objects.all()),
        Exists(people.exclude(pk=user.pk)),
    )
    steps = [FirstStep(step, is_done) for step, is_done in zip(FirstStepKind, done, strict=True)]
    return [] if all(done) else steps


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


@dataclass(frozen=True, slots=True)
class RunningJobRow:
    """A running job. `expected_at` is None after too few similar successful runs."""

    job: Job
    usual: UsualRun | None
    expected_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The first of each, `ended` only if nothing comes next; the counts are of all."""

    running: list[RunningJobRow]
    running_count: int
    queued: list[Job]
    queued_count: int
    oldest_queued_at: datetime | None
    due: list[Schedule]
    ended: list[Job] = field(default_factory=list)


def list_running_jobs(user: Person) -> RunningJobs:
    """List the running, waiting and ended jobs on tables visible to a person."""
    visible = visible_jobs(user).select_related("table").only(*_SHOWN)
    active = visible.filter(finished_at__isnull=True)  # an index has the few that have not ended
    waiting = active.filter(state=Job.State.QUEUED).order_by("created_at")
    busy = active.filter(state__in=Job.AT_WORK)
    tries = JobAttempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    began = busy.annotate(try_at=Subquery(tries.values("started_at")[:1]))
    jobs = list(began.order_by(F("started_at").asc(nulls_last=True))[:MOST_RUNNING])
    usual = usual_runs_of(jobs)
    due = visible_schedules(user).filter(enabled=True, next_due_at__isnull=False)
    ended = visible.filter(state__in=Job.ENDED, finished_at__isnull=False)
    queued = list(waiting[:MOST_NEXT])
    next_due = list(
        due.select_related("table", "owner")
        .only(*_OF_A_SCHEDULE)
        .order_by("next_due_at", "pk")[:MOST_NEXT]
    )
    is_idle = not queued and not next_due
    return RunningJobs(
        running=[_build_running(job, usual) for job in jobs],
        running_count=len(jobs) if len(jobs) < MOST_RUNNING else busy.count(),
        queued=queued,
        queued_count=len(queued) if len(queued) < MOST_NEXT else waiting.order_by().count(),
        oldest_queued_at=queued[0].created_at if queued else None,
        due=next_due,
        ended=list(ended.order_by("-finished_at")[:MOST_NEXT]) if is_idle else [],
    )


def _build_running(job: Job, usual: Mapping[UUID, UsualRun]) -> RunningJobRow:
    began: datetime | None = getattr(job, "try_at", None) or job.started_at
    usual_run = usual.get(job.pk)
    return RunningJobRow(
        job, usual_run, usual_run.end_after(began) if usual_run and began else None
    )
