"""The first page: news since the reader's last visit, and conditions that need attention."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from lakeui.catalog.commit_hours import commits_since
from lakeui.monitoring import overview as lake
from lakeui.monitoring.first_steps import first_steps
from lakeui.monitoring.news import news
from lakeui.monitoring.partition_costs import partition_costs
from lakeui.monitoring.recent_conflicts import (
    ConflictsOfDay,
    add_resolved_counts,
    day_of,
    sums_of_day,
)
from lakeui.monitoring.running_jobs import list_running_jobs
from lakeui.monitoring.table_ranking import (
    SHOWS,
    SORTS,
    list_leading_tables,
    many_aborted,
    table_counts,
)
from lakeui.pages.access.preferences import hides_first_steps
from lakeui.pages.charts.heat import draw_heat
from lakeui.pages.charts.partition_heat import draw_partition_heat
from lakeui.pages.charts.sparkline import draw_sparkline
from lakeui.pages.overview.attention import build_attention

RANGES = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
HEATS = ("hour", "partition")
_A_LOOK = timedelta(minutes=30)  # pages within it belong to one visit
_ROWS, _ITEMS, _OF_A_CHECK, _PAIRS, _NEWS = 25, 7, 3, 8, 8


@login_required
def overview(request: HttpRequest) -> HttpResponse:
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        fragment = {"at_work": list_running_jobs(request.user)}
        return render(request, "overview/_running.html", fragment)
    looks = _Looks(request)
    now = timezone.now()
    since = now - RANGES[looks.range_name] if looks.range_name in RANGES else looks.previous
    day = day_of(request.user, now)
    context = _activity_context(request, since, day)
    context |= _tables_context(request, day, now, context)
    context |= _heat(request, day, now) | build_attention(request, now, day, _OF_A_CHECK)[1]
    page: dict[str, Any] = {
        "at_work": list_running_jobs(request.user),
        "first_steps": [] if hides_first_steps(request) else first_steps(request.user),  # type: ignore[arg-type]
        "looks": looks,
        "since": since,
        "ranges": RANGES,
        "first_range": "24h",
        "items_shown": _ITEMS,
        "twin": f"/api/v1/overview/?since={since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    response = render(request, "overview/overview.html", context | page)
    looks.remember(response)
    return response


def _activity_context(request: HttpRequest, since: datetime, day: ConflictsOfDay) -> dict[str, Any]:
    happened = lake.activity(request.user, since, day)
    return {
        "lake": lake.lake_of(request.user),
        "activity": happened,
        "day": happened.conflicts if since == day.since else sums_of_day(request.user, day),
        "pairs_shown": _PAIRS,
        "news": news(request.user, since, _NEWS),
    }


def _tables_context(
    request: HttpRequest, day: ConflictsOfDay, now: datetime, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the tables, each with its day."""
    show = _one_of(request, "show", SHOWS, "")
    sort = _one_of(request, "sort", SORTS, "-aborted")
    tables = list_leading_tables(request.user, day, _ROWS, show=show, sort=sort)
    commits, happened = lake.commits_by_hour(tables, now), facts["activity"]
    return {
        "tables": tables,
        "show": show,
        "shows": table_counts(request.user, day, facts["lake"]),
        "sort": sort,
        "to_look_at": many_aborted(day),
        "table_sums": add_resolved_counts(day, tables, now),
        "day_commits": happened.commit_count
        if happened.since == day.since
        else commits_since(request.user, day.since),
        "sparks": {
            t.pk: draw_sparkline(
                commits.get(t.pk, {}), day.aborted_by_hour.get(t.pk, {}), now.astimezone(UTC)
            )
            for t in tables
        },
    }


def _heat(request: HttpRequest, day: ConflictsOfDay, now: datetime) -> dict[str, Any]:
    by = _one_of(request, "heat", HEATS, "hour")
    if by == "hour":
        return {"heat_by": by, "heat": draw_heat(day.cost_by_hour, now)}
    costs = partition_costs(request.user, now)
    return {"heat_by": by, "heat": draw_partition_heat(costs.rows), "costs": costs}


def _one_of(request: HttpRequest, name: str, names: Collection[str], preset: str) -> str:
    given = request.GET.get(name, "")
    if given and given not in names:
        msg = f"There is no such {name} of this page."
        raise Http404(msg)
    return given or preset


class _Looks:
    """The reader's last visit, kept in a cookie; a visit lasts while they keep reading.

    At a first visit (`is_first`) the last 24 hours are reported.
    """

    def __init__(self, request: HttpRequest) -> None:
        self.range_name = request.GET.get("range", "look")
        now = timezone.now()
        before, current = _times(request.COOKIES.get("looked", ""))
        if current is not None and now - current > _A_LOOK:
            before = current
        self.is_first = before is None
        self.previous, self._current = before or now - timedelta(hours=24), now

    def remember(self, response: HttpResponse) -> None:
        before = 0 if self.is_first else self.previous.timestamp()
        value = f"{before:.0f}.{self._current.timestamp():.0f}"
        response.set_cookie("looked", value, max_age=31_536_000, samesite="Lax", httponly=True)


def _times(text: str) -> tuple[datetime | None, datetime | None]:
    parts = text.split(".")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) < 12 for p in parts):
        return None, None
    before, current = (datetime.fromtimestamp(int(part), UTC) for part in parts)
    return (before if before.timestamp() else None), current
