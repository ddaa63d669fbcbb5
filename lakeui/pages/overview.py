"""The first page: what happened since the reader last looked, and what needs them."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncHour
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from lakeui.catalog.access import visible_tables
from lakeui.catalog.health import with_health
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job
from lakeui.pages.attention import Losses, matters
from lakeui.pages.charts.heat import draw_heat
from lakeui.pages.charts.sparkline import Sparkline, draw_sparkline

RANGES = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
_A_LOOK = timedelta(minutes=30)  # pages within it belong to the same look
_ROWS, _MATTERS, _PAIRS = 25, 6, 8


@dataclass(frozen=True, slots=True)
class Pair:
    loser: str
    winner: str
    times: int
    wasted_ms: int


@dataclass(slots=True)
class Meetings:
    """Conflicts of a span, summed each way the page shows them."""

    escaped: int = 0
    absorbed: int = 0
    wasted_ms: int = 0
    wasted_bytes: int = 0
    by_table: dict[int, Losses] = field(default_factory=dict)
    lost_by_hour: dict[int, dict[datetime, int]] = field(default_factory=dict)
    cost_by_hour: dict[tuple[str, datetime], int] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)


@login_required
def overview(request: HttpRequest) -> HttpResponse:
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return render(request, "overview/_running.html", _running(request))
    looks = _Looks(request)
    now = timezone.now()
    since = now - RANGES[looks.range_name] if looks.range_name in RANGES else looks.previous
    context = _happened(request, since, now) | _running(request)
    context |= {
        "looks": looks,
        "since": since,
        "ranges": RANGES,
        "twin": "/api/v1/tables/",
    }
    response = render(request, "overview/overview.html", context)
    looks.remember(response)
    return response


def _happened(request: HttpRequest, since: datetime, now: datetime) -> dict[str, Any]:
    visible = visible_tables(request.user)
    tables = list(with_health(visible).order_by("name"))
    day = _meetings(visible, now - timedelta(hours=24))
    span = _meetings(visible, since)
    jobs = Job.objects.filter(table__in=visible, created_at__gte=since)
    failed = jobs.filter(state=Job.State.FAILED).select_related("table")
    found = matters(tables, day.by_table, failed[:3], now)
    commits = _commits_by_hour(visible, now)
    return {
        "tables": sorted(tables, key=lambda t: (-_escaped(day, t), t.name))[:_ROWS],
        "table_count": len(tables),
        "sparks": {t.pk: _spark(t, commits, day, now) for t in tables},
        "losses": day.by_table,
        "matters": found[:_MATTERS],
        "matter_count": len(found),
        "span": span,
        "day": day,
        "commit_count": Commit.objects.filter(table__in=visible, committed_at__gte=since).count(),
        "jobs": jobs.aggregate(all=Count("pk"), failed=Count("pk", Q(state=Job.State.FAILED))),
        "size_bytes": sum(t.size_bytes for t in tables),
        "file_count": sum(t.file_count for t in tables),
        "eligible_count": sum(t.row_level_eligible for t in tables),
        "heat": draw_heat(day.cost_by_hour, now),
        "pairs": day.pairs[:_PAIRS],
    }


def _running(request: HttpRequest) -> dict[str, Any]:
    visible = Job.objects.filter(table__in=visible_tables(request.user))
    active = visible.filter(state__in=Job.ACTIVE).select_related("table", "requested_by")
    jobs = list(active.order_by(F("started_at").asc(nulls_last=True), "created_at")[:12])
    recent = visible.filter(state__in=Job.ENDED).select_related("table")
    return {
        "running": [job for job in jobs if job.state != Job.State.QUEUED],
        "queued": [job for job in jobs if job.state == Job.State.QUEUED],
        "recent": recent.order_by("-finished_at")[:4],
    }


def _meetings(visible: QuerySet[Table], since: datetime) -> Meetings:
    grouped = (
        Conflict.objects.filter(Q(table__in=visible), occurred_at__gte=since)
        .annotate(hour=TruncHour("occurred_at", tzinfo=UTC))
        .order_by()
        .values("hour", "table_id", "kind", "current_operation", "winner_operation")
        .annotate(n=Count("pk"), ms=Sum("wasted_ms"), size=Sum("wasted_bytes"))
    )
    sums = Meetings()
    pairs: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    losses: dict[int, Counter[str]] = defaultdict(Counter)
    for row in grouped:
        if row["kind"] == Conflict.Kind.ABSORBED:
            sums.absorbed += row["n"]
            losses[row["table_id"]]["absorbed"] += row["n"]
            continue
        sums.escaped += row["n"]
        sums.wasted_ms += row["ms"]
        sums.wasted_bytes += row["size"]
        losses[row["table_id"]].update(escaped=row["n"], wasted_ms=row["ms"])
        hours = sums.lost_by_hour.setdefault(row["table_id"], {})
        hours[row["hour"]] = hours.get(row["hour"], 0) + row["n"]
        sides = (row["current_operation"], row["winner_operation"])
        cell = (" \N{MULTIPLICATION SIGN} ".join(side or "?" for side in sides), row["hour"])
        sums.cost_by_hour[cell] = sums.cost_by_hour.get(cell, 0) + row["ms"]
        pairs[sides][0] += row["n"]
        pairs[sides][1] += row["ms"]
    sums.by_table = {pk: Losses(**counts) for pk, counts in losses.items()}
    sums.pairs = sorted((Pair(*s, *c) for s, c in pairs.items()), key=lambda p: -p.wasted_ms)
    return sums


def _commits_by_hour(
    visible: QuerySet[Table], now: datetime
) -> Mapping[int, Mapping[datetime, int]]:
    grouped = (
        Commit.objects.filter(table__in=visible, committed_at__gte=now - timedelta(hours=24))
        .annotate(hour=TruncHour("committed_at", tzinfo=UTC))
        .order_by()
        .values_list("table_id", "hour")
        .annotate(n=Count("pk"))
    )
    found: dict[int, dict[datetime, int]] = defaultdict(dict)
    for table_id, hour, n in grouped:
        found[table_id][hour] = n
    return found


def _spark(
    table: Table,
    commits: Mapping[int, Mapping[datetime, int]],
    day: Meetings,
    now: datetime,
) -> Sparkline:
    hour = now.astimezone(UTC)
    return draw_sparkline(commits.get(table.pk, {}), day.lost_by_hour.get(table.pk, {}), hour)


def _escaped(day: Meetings, table: Table) -> int:
    return day.by_table.get(table.pk, Losses()).escaped


class _Looks:
    """When the reader last looked, kept in a cookie; a look lasts as long as they keep looking."""

    def __init__(self, request: HttpRequest) -> None:
        self.range_name = request.GET.get("range", "look")
        now = timezone.now()
        before, current = _times(request.COOKIES.get("looked", ""))
        if current is None or before is None:
            before, current = now - timedelta(hours=24), now
        elif now - current > _A_LOOK:
            before, current = current, now
        else:
            current = now
        self.previous, self._current = before, current

    def remember(self, response: HttpResponse) -> None:
        value = f"{self.previous.timestamp():.0f}.{self._current.timestamp():.0f}"
        response.set_cookie("looked", value, max_age=31_536_000, samesite="Lax", httponly=True)


def _times(text: str) -> tuple[datetime | None, datetime | None]:
    parts = text.split(".")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) < 12 for p in parts):
        return None, None
    before, current = (datetime.fromtimestamp(int(part), UTC) for part in parts)
    return before, current
