"""What happened in the lake since a moment, for the first page and its REST twin.

However many tables and versions there are, each question is answered from an index or from hours
that the mirror counted: nothing here walks all commits.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q, Sum
from django.db.models.functions import TruncHour

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.commit_hours import commits_since, growth_since
from lakeui.catalog.filters import count_by_table
from lakeui.catalog.health import Health, with_health
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.costs import AS_FOUND
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job

DAY = timedelta(hours=24)
Hours = Mapping[datetime, int]


@dataclass(frozen=True, slots=True)
class Losses:
    """What a table's conflicts cost in the span looked at."""

    escaped: int = 0
    absorbed: int = 0
    wasted_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """Operations that met, the loser's first."""

    loser: str
    winner: str
    times: int
    wasted_ms: int


@dataclass(slots=True)
class Sums:
    """Conflicts of a span."""

    escaped: int = 0
    absorbed: int = 0
    wasted_ms: int = 0
    wasted_bytes: int = 0
    pairs: list[Pair] = field(default_factory=list)


@dataclass(slots=True)
class Day:
    """Conflicts of the last 24 hours by table, by hour and by pair."""

    by_table: dict[int, Losses] = field(default_factory=dict)
    lost_by_hour: dict[int, dict[datetime, int]] = field(default_factory=dict)
    cost_by_hour: dict[tuple[str, datetime], int] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What happened since a moment; `growth_bytes` in whole hours, None where not theirs to sum."""

    since: datetime
    commit_count: int
    growth_bytes: int | None
    conflicts: Sums
    job_count: int
    failed_job_count: int


def lake_of(user: Person) -> Lake:
    """One pass over the tables' own rows."""
    tables = with_health(visible_tables(user)).order_by()
    found = tables.aggregate(
        table_count=Count("pk"),
        size_bytes=Sum("size_bytes", default=0),
        file_count=Sum("file_count", default=0),
        eligible_count=Count("pk", Q(row_level_eligible=True)),
        unhealthy_count=Count("pk", ~Q(health=Health.HEALTHY)),
        ill_count=Count("pk", ~Q(health__in=(Health.HEALTHY, Health.PENDING))),
        no_row_level_count=Count("pk", Q(row_level_eligible=False, version__isnull=False)),
    )
    return Lake(**found)


def activity(user: Person, since: datetime) -> Activity:
    """Sums alone: commits, conflicts, jobs."""
    jobs = visible_jobs(user).filter(created_at__gte=since).order_by()
    counted = jobs.aggregate(
        all=Count("state"), failed=Count("state", filter=Q(state=Job.State.FAILED))
    )
    return Activity(
        since=since,
        commit_count=commits_since(user, since),
        growth_bytes=growth_since(user, since),
        conflicts=conflict_sums(user, since),
        job_count=counted["all"],
        failed_job_count=counted["failed"],
    )


def conflict_sums(user: Person, since: datetime) -> Sums:
    """Lost ones by pair of operations, summed by the database; of absorbed ones how many."""
    found = visible_conflicts(user).filter(occurred_at__gte=since).order_by()
    lost = found.filter(kind__in=Conflict.LOST)
    sides = lost.values_list(*AS_FOUND)
    grouped = sides.annotate(n=Count("pk"), ms=Sum("wasted_ms"), size=Sum("wasted_bytes"))
    rows = sorted(grouped, key=lambda row: (-row[3], -row[2], row[:2]))
    return Sums(
        escaped=sum(row[2] for row in rows),
        absorbed=found.filter(kind=Conflict.Kind.ABSORBED).count(),
        wasted_ms=sum(row[3] for row in rows),
        wasted_bytes=sum(row[4] for row in rows),
        pairs=[Pair(*row[:4]) for row in rows],
    )


def day_of(user: Person, now: datetime) -> Day:
    """Writes lost in the last 24 hours, hour by hour."""
    found = visible_conflicts(user).filter(occurred_at__gte=now - DAY).order_by()
    grouped = (
        found.filter(kind__in=Conflict.LOST)
        .annotate(hour=TruncHour("occurred_at", tzinfo=UTC))
        .values("hour", "table_id", "current_operation", "winner_operation")
        .annotate(n=Count("pk"), ms=Sum("wasted_ms"))
    )
    day, losses = Day(), defaultdict[int, Counter[str]](Counter)
    for row in grouped:
        losses[row["table_id"]].update(escaped=row["n"], wasted_ms=row["ms"])
        hours = day.lost_by_hour.setdefault(row["table_id"], {})
        hours[row["hour"]] = hours.get(row["hour"], 0) + row["n"]
        sides = (row["current_operation"], row["winner_operation"])
        cell = (" \N{MULTIPLICATION SIGN} ".join(side or "?" for side in sides), row["hour"])
        day.cost_by_hour[cell] = day.cost_by_hour.get(cell, 0) + row["ms"]
    day.by_table = {pk: Losses(**counts) for pk, counts in losses.items()}
    return day


def with_absorbed(day: Day, tables: list[Table], now: datetime) -> dict[int, Losses]:
    """The day's losses of a few tables, and beside them how often rows kept writes apart."""
    met = _met_by(tables, now - DAY)
    return {
        table.pk: replace(day.by_table.get(table.pk, Losses()), absorbed=met[table.pk]["absorbed"])
        for table in tables
    }


def commits_by_hour(tables: list[Table], now: datetime) -> Mapping[int, Hours]:
    """Of the last 24 hours, of a few tables."""
    grouped = (
        Commit.objects.filter(table__in=tables, committed_at__gte=now - DAY)
        .annotate(hour=TruncHour("committed_at", tzinfo=UTC))
        .order_by()
        .values_list("table_id", "hour")
        .annotate(n=Count("pk"))
    )
    found: dict[int, dict[datetime, int]] = defaultdict(dict)
    for table_id, hour, n in grouped:
        found[table_id][hour] = n
    return found


def news(user: Person, since: datetime, count: int) -> AllNews:
    """The tables with something new, those that failed or lost first."""
    lost = visible_conflicts(user).filter(occurred_at__gte=since, kind__in=Conflict.LOST).order_by()
    failed = visible_jobs(user).filter(state=Job.State.FAILED, finished_at__gte=since).order_by()
    losses, failures = count_by_table(lost), count_by_table(failed)
    visible = visible_tables(user)
    changed = visible.filter(last_commit_at__gte=since)
    worst = {*_most(failures, count), *_most(losses, count)}
    tables = list(visible.filter(pk__in=worst))
    if len(tables) < count:
        rest = changed.exclude(pk__in=worst).order_by("-last_commit_at")
        tables += list(rest[: count - len(tables)])
    met, versions = _met_by(tables, since), _versions_since(tables, since)
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
    with_news = {*losses, *failures, *changed.order_by().values_list("pk", flat=True)}
    return AllNews(first=rows[:count], table_count=len(with_news), losing_tables=len(losses))


def _most(counted: Counter[int], count: int) -> list[int]:
    """The tables that have most."""
    return sorted(counted, key=lambda table_id: (-counted[table_id], table_id))[:count]


def _met_by(tables: list[Table], since: datetime) -> defaultdict[int, Counter[str]]:
    """Of a few tables: by table first, which is how an index has them."""
    met = Conflict.objects.filter(table__in=tables, occurred_at__gte=since).order_by()
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for pk, kind, n in met.values_list("table_id", "kind").annotate(n=Count("pk")):
        found[pk]["absorbed" if kind == Conflict.Kind.ABSORBED else "lost"] += n
    return found


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
