"""The first page: what happened since the reader last looked, and what needs them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.monitoring import overview as lake
from lakeui.pages.attention import QUIET_MIRROR, matters
from lakeui.pages.charts.heat import draw_heat
from lakeui.pages.charts.sparkline import draw_sparkline

RANGES = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
_A_LOOK = timedelta(minutes=30)  # pages within it belong to the same look
_ROWS, _MATTERS, _PAIRS, _NEWS = 25, 6, 8, 8


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
        "twin": f"/api/v1/overview/?since={since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    response = render(request, "overview/overview.html", context)
    looks.remember(response)
    return response


def _happened(request: HttpRequest, since: datetime, now: datetime) -> dict[str, Any]:
    user = request.user
    day = lake.day_of(user, now)
    tables = lake.leading_tables(user, day, _ROWS)
    commits = lake.commits_by_hour(tables, now)
    sums = lake.lake_of(user)
    failed = visible_jobs(user).filter(state=Job.State.FAILED, finished_at__gte=since)
    ill = lake.troubled_tables(user, now - QUIET_MIRROR, 2 * _MATTERS)
    recent = failed.select_related("table").order_by("-finished_at")[:3]
    known = {table.pk: table for table in (*ill, *tables)}
    losses = lake.with_absorbed(day, tables, now)
    found = matters(known.values(), losses, recent, now)
    happened = lake.activity(user, since)
    is_day = request.GET.get("range") == "24h"
    return {
        "tables": tables,
        "lake": sums,
        "activity": happened,
        "sparks": {
            t.pk: draw_sparkline(
                commits.get(t.pk, {}), day.lost_by_hour.get(t.pk, {}), now.astimezone(UTC)
            )
            for t in tables
        },
        "losses": losses,
        "day": happened.conflicts if is_day else lake.conflict_sums(user, now - lake.DAY),
        "pairs_shown": _PAIRS,
        "heat": draw_heat(day.cost_by_hour, now),
        "news": lake.news(user, since, _NEWS),
        "matters": found[:_MATTERS],
        "matter_count": len(found),
        "more_unhealthy": max(sums.unhealthy_count - len(ill), 0),
    }


def _running(request: HttpRequest) -> dict[str, Any]:
    visible = visible_jobs(request.user).select_related("table")
    active = visible.filter(state__in=Job.ACTIVE).select_related("requested_by")
    jobs = list(active.order_by(F("started_at").asc(nulls_last=True), "created_at")[:12])
    recent = visible.filter(state__in=Job.ENDED, finished_at__isnull=False)
    return {
        "running": [job for job in jobs if job.state != Job.State.QUEUED],
        "queued": [job for job in jobs if job.state == Job.State.QUEUED],
        "recent": recent.order_by("-finished_at")[:4],
    }


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
