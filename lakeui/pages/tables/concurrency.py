"""Concurrent writers of a table: the swim-lane, one transaction of it, and the same as a table."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.conflicts.lanes.bars import LaneBar
from lakeui.conflicts.lanes.narrowing import LaneFilter, filter_lane
from lakeui.conflicts.lanes.path import lane_path
from lakeui.conflicts.lanes.sums import lane_sums
from lakeui.conflicts.lanes.swim_lane import SwimLane, navigator, other_settings, swim_lane
from lakeui.pages.charts.lanes import LaneStrip, draw_lanes, draw_strip
from lakeui.pages.charts.swim import draw_swim_lane
from lakeui.pages.exports import export
from lakeui.pages.lane_window import ALL_SPANS, Window, elsewhere, filter_of, prefix, window_of
from lakeui.pages.listing import find_page
from lakeui.pages.table_head import table_head, visible_table
from lakeui.pages.tables.what_if import SPANS as WHAT_IF_SPANS

COLUMNS = {
    "outcome": lambda b: b.outcome,
    "version": lambda b: b.version,
    "operation": lambda b: b.operation,
    "writer": lambda b: b.lane,
    "engine": lambda b: b.engine or None,
    "read_version": lambda b: b.read_version,
    "started_at": lambda b: b.started_at,
    "started_is_estimated": lambda b: b.started_is_estimated,
    "finished_at": lambda b: b.finished_at,
    "took_ms": lambda b: b.took_ms,
    "overlap_count": lambda b: b.overlap_count,
    "exempt": lambda b: b.exempt,
    "resolved": lambda b: list(b.resolved),
    "winning_version": lambda b: b.winning_version,
    "did": lambda b: b.said or None,
    "ending": lambda b: b.ending or None,
    "isolation_level": lambda b: b.isolation_level or None,
    "is_blind_append": lambda b: b.is_blind_append,
    "wasted_ms": lambda b: b.wasted_ms,
    "wasted_bytes": lambda b: b.wasted_bytes,
    "conflict_id": lambda b: b.conflict_id,
    "job_id": lambda b: b.job_id,
    "pipeline": lambda b: b.pipeline or None,
}
SUM_COLUMNS = {
    "lane": lambda row: row[0].name,
    "first": lambda row: row[1].first,
    "last": lambda row: row[1].last,
    "began_at": lambda row: row[1].began_at,
    "commits": lambda row: row[1].commits,
    "aborted": lambda row: row[1].aborted,
}
_ROWS_A_PAGE = 60
_UNCHANGED = 204


@dataclass(frozen=True, slots=True)
class LaneFilterChip:
    """One filter of chart and table."""

    name: str
    value: str


@login_required
def concurrency(request: HttpRequest, pk: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    window, by = window_of(request, table), filter_of(request)
    around = elsewhere(request, table, window)
    if around is not None:
        return redirect(request.path + around)
    if window.is_summed:
        return _render_lane_sums(request, table, window, by)
    whole = swim_lane(table, window.first, window.last)
    if "export" in request.GET:
        rows = _newest_first(filter_lane(table, whole, by)[0])
        return export(rows, COLUMNS, request.GET["export"], f"{table.name}-concurrency")
    return _render_lanes(request, table, _context(request, table, window, whole, by))


def _render_lanes(request: HttpRequest, table: Table, context: dict[str, Any]) -> HttpResponse:
    """Render the page; for htmx only the lanes, or nothing if they are unchanged."""
    if not request.headers.get("HX-Request"):
        head = {"head": table_head(request, table, "concurrency")}
        return render(request, "tables/concurrency.html", context | head)
    if request.headers.get("X-Seen") == context["state"]:
        return HttpResponse(status=_UNCHANGED)
    return render(request, "tables/_lanes.html", context)


def _context(
    request: HttpRequest, table: Table, window: Window, whole: SwimLane, by: LaneFilter
) -> dict[str, Any]:
    data, counts = filter_lane(table, whole, by)
    by_time, by_operation = request.GET.get("x") == "time", request.GET.get("by") == "operation"
    now, (first_at, last_at) = timezone.now(), _commit_time_range(whole)
    picked_key = request.GET.get("pick", "")
    return {
        "table": table,
        "window": window,
        "spans": ALL_SPANS,
        "by": by,
        "active": _active(by),
        "writers": sorted({bar.lane for bar in whole.all}, key=str.lower),
        "operations": sorted({bar.operation for bar in whole.all}),
        "partitions": sorted({text for bar in whole.bars for text in bar.partitions}),
        "counts": counts,
        "data": data,
        "took": last_at - first_at if first_at and last_at else None,
        "by_time": by_time,
        "by_operation": by_operation,
        "chart": draw_swim_lane(
            data,
            by_time=by_time,
            by_operation=by_operation,
            now=now,
            metadata=_metadata(whole),
        ),
        "others": other_settings(table, whole),
        "what_if_span": next(n for n in WHAT_IF_SPANS if n >= window.span),
        "strip": _strip(table, first_at, last_at, now),
        "page": find_page(request, Paginator(_newest_first(data), _ROWS_A_PAGE)),
        "now": now,
        "picked_key": picked_key,
        "pick": prefix(request, "pick", ("page",)),
        "goto": prefix(request, "last", ("pick", "page")),
        "picked": lane_path(table, whole, picked_key) if picked_key else None,
        "state": f"{table.version}.{counts.running}.{counts.aborted}.{counts.resolved}",
        "twin": _address(table, "concurrency/", window, asdict(by) | {"pick": picked_key}),
    }


def _render_lane_sums(
    request: HttpRequest, table: Table, window: Window, by: LaneFilter
) -> HttpResponseBase:
    """Lanes of many versions: sums by bucket, each the way to its versions."""
    by_operation = request.GET.get("by") == "operation"
    sums = lane_sums(table, window.first, window.last, by_operation=by_operation, only=by)
    if "export" in request.GET:
        rows = [(lane, bucket) for lane in sums.lanes for bucket in lane.buckets]
        return export(rows, SUM_COLUMNS, request.GET["export"], f"{table.name}-concurrency")
    buckets = sums.all.buckets
    by_lane = list(zip(*(lane.buckets for lane in sums.lanes), strict=True)) or [()] * len(buckets)
    chart = draw_lanes(sums)
    goto = prefix(request, "last", (), span=chart.span)
    asked = {"by": "operation" if by_operation else "writer"}
    asked |= {"writer": by.writer, "operation": by.operation}
    context = {
        "table": table,
        "head": table_head(request, table, "concurrency"),
        "window": window,
        "spans": ALL_SPANS,
        "by": by,
        "by_operation": by_operation,
        "sums": sums,
        "chart": chart,
        "goto": goto,
        "took": sums.took,
        "buckets": list(zip(buckets, by_lane, strict=True))[::-1],
        "twin": _address(table, "concurrency/lanes/", window, asked),
    }
    return render(request, "tables/concurrency.html", context)


def _newest_first(data: SwimLane) -> list[LaneBar]:
    """Return bars latest first, running ones on top."""
    return [*data.running, *reversed(data.bars)]


def _commit_time_range(whole: SwimLane) -> tuple[datetime | None, datetime | None]:
    """Return the times of the first and the last version."""
    moments = [b.finished_at for b in whole.bars if b.version is not None and b.finished_at]
    return min(moments, default=None), max(moments, default=None)


def _strip(
    table: Table, first_at: datetime | None, last_at: datetime | None, now: datetime
) -> LaneStrip | None:
    strip = navigator(table, first_at, now)
    return draw_strip(strip, first_at, last_at) if strip else None


def _metadata(whole: SwimLane) -> dict[int, datetime | None]:
    """Return the versions that changed the metadata, with their times."""
    changed = (bar for bar in whole.bars if bar.changes_metadata)
    return {bar.version: bar.finished_at for bar in changed if bar.version is not None}


def _active(by: LaneFilter) -> list[LaneFilterChip]:
    named = (("writer", by.writer), ("operation", by.operation), ("partition", by.partition))
    return [LaneFilterChip(name, value) for name, value in named if value]


def _address(table: Table, path: str, window: Window, asked: Mapping[str, str]) -> str:
    """Return the address of this page's JSON."""
    given = {name: value for name, value in asked.items() if value}
    query = urlencode({"first": window.first, "last": window.last} | given)
    return f"/api/v1/tables/{table.pk}/{path}?{query}"
