"""Who wrote at once on a table: the swim-lane, one transaction of it, and the same as a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.lane_sums import lane_sums
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.swim_lane import Bar, SwimLane, swim_lane
from lakeui.jobs.models import Job, JobAttempt
from lakeui.pages.charts.lanes import draw_lanes
from lakeui.pages.charts.swim import bar_key, draw_swim_lane
from lakeui.pages.charts.swim_axes import Running
from lakeui.pages.table_head import table_head, visible_table

SPANS = (15, 30, 60, 120)
SUMMED_SPANS = (600, 3000)  # too many to draw one by one
_USUAL_SPAN = 30
_MET_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Window:
    """The versions looked at, and the ones beside them."""

    first: int
    last: int
    span: int
    earlier_last: int | None
    later_last: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """One version that a picked transaction met on its way."""

    commit: Commit
    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class Picked:
    """A transaction and its way from the version it read to where it ended."""

    bar: Bar
    conflict: Conflict | None
    steps: tuple[Step, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    bar: Bar


@login_required
def concurrency(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    return render(request, "tables/concurrency.html", _context(request, table))


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    window = _window(request, table)
    if window.span in SUMMED_SPANS:
        return _summed(request, table, window)
    data = swim_lane(table, window.first, window.last)
    running = _running(table) if window.later_last is None else []
    by_time, by_operation = request.GET.get("x") == "time", request.GET.get("by") == "operation"
    wasted = table.conflicts.filter(pk__in=[b.conflict_id for b in data.bars if b.conflict_id])
    cost = list(wasted.values_list("wasted_ms", "wasted_bytes"))
    return {
        "table": table,
        "head": table_head(request, table, "concurrency"),
        "window": window,
        "spans": (*SPANS, *SUMMED_SPANS),
        "data": data,
        "running": running,
        "by_time": by_time,
        "by_operation": by_operation,
        "chart": draw_swim_lane(
            data,
            running,
            by_time=by_time,
            by_operation=by_operation,
            now=timezone.now(),
            metadata_versions=_metadata_versions(table, window),
        ),
        "rows": [Row(bar_key(bar), bar) for bar in reversed(data.bars)],
        "picked_key": request.GET.get("pick", ""),
        "lost_count": sum(bar.outcome != "committed" for bar in data.bars),
        "committed_count": sum(bar.outcome == "committed" for bar in data.bars),
        "wasted_ms": sum(ms for ms, _ in cost),
        "wasted_bytes": sum(size for _, size in cost),
        "picked": _picked(request, table, data),
        "took": _took(data),
        "twin": f"/api/v1/tables/{table.pk}/concurrency/?first={window.first}&last={window.last}",
    }


def _summed(request: HttpRequest, table: Table, window: Window) -> dict[str, Any]:
    """Lanes of many versions: sums by bucket, each the way to its versions."""
    by_operation = request.GET.get("by") == "operation"
    sums = lane_sums(table, window.first, window.last, by_operation=by_operation)
    by_lane = zip(*(lane.buckets for lane in sums.lanes), strict=True)
    return {
        "table": table,
        "head": table_head(request, table, "concurrency"),
        "window": window,
        "spans": (*SPANS, *SUMMED_SPANS),
        "by_operation": by_operation,
        "sums": sums,
        "chart": draw_lanes(sums),
        "buckets": list(zip(sums.all.buckets, by_lane, strict=False))[::-1],
        "twin": f"/api/v1/tables/{table.pk}/concurrency/lanes/?first={window.first}"
        f"&last={window.last}&by={'operation' if by_operation else 'writer'}",
    }


def _window(request: HttpRequest, table: Table) -> Window:
    latest = table.version or 0
    earliest = table.earliest_version or 0
    span = _number(request, "span", _USUAL_SPAN)
    if span not in (*SPANS, *SUMMED_SPANS):
        msg = "There is no such number of versions to look at."
        raise Http404(msg)
    last = min(_number(request, "last", latest), latest)
    first = max(last - span + 1, earliest, 0)
    return Window(
        first,
        last,
        span,
        first - 1 if first > earliest else None,
        min(last + span, latest) if last < latest else None,
    )


def _number(request: HttpRequest, name: str, preset: int) -> int:
    text = request.GET.get(name, "")
    if not text:
        return preset
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        msg = f"{name} is not a number."
        raise Http404(msg)
    return int(text)


def _running(table: Table) -> list[Running]:
    attempts = JobAttempt.objects.filter(
        job__table=table,
        job__state__in=(Job.State.RUNNING, Job.State.COMMITTING),
        job__dry_run=False,
        outcome=JobAttempt.Outcome.RUNNING,
        read_version__isnull=False,
    ).select_related("job__requested_by")
    return [_as_running(attempt) for attempt in attempts]


def _as_running(attempt: JobAttempt) -> Running:
    job = attempt.job
    who = job.requested_by.get_username() if job.requested_by else "the system"
    percent = 100 * job.progress_done // job.progress_total if job.progress_total else None
    operation = job.kind.replace("_", " ").upper()
    read = attempt.read_version or 0
    return Running(who, operation, read, attempt.started_at, str(job.pk), percent)


def _metadata_versions(table: Table, window: Window) -> frozenset[int]:
    changed = table.commits.filter(
        version__range=(window.first, window.last), changes_metadata=True, version__gt=0
    )
    return frozenset(changed.values_list("version", flat=True))


def _picked(request: HttpRequest, table: Table, data: SwimLane) -> Picked | None:
    key = request.GET.get("pick", "")
    if not key:
        return None
    for bar in data.bars:
        if key == bar_key(bar):
            return _with_steps(table, bar, data)
    return None


def _with_steps(table: Table, bar: Bar, data: SwimLane) -> Picked:
    conflict = table.conflicts.filter(pk=bar.conflict_id).first() if bar.conflict_id else None
    end = bar.winning_version if bar.version is None else bar.version - 1
    if bar.read_version is None or end is None:
        return Picked(bar, conflict, (), 0)
    met = table.commits.filter(version__gt=bar.read_version, version__lte=end).defer("raw")
    absorbed = {
        joint.winning_version
        for joint in data.joints
        if bar.version is not None and joint.version == bar.version
    }
    commits = list(met.order_by("-version")[:_MET_SHOWN])[::-1]
    steps = tuple(_step(commit, bar, absorbed) for commit in commits)
    return Picked(bar, conflict, steps, max(0, end - bar.read_version - len(steps)))


def _step(commit: Commit, bar: Bar, absorbed: Iterable[int | None]) -> Step:
    if bar.version is None and commit.version == bar.winning_version:
        return Step(commit, "x", "lost to it")
    if commit.version in absorbed:
        return Step(commit, "joint", "absorbed by rows")
    return Step(commit, "none", "blind append" if commit.is_blind_append else "nothing in common")


def _took(data: SwimLane) -> timedelta | None:
    ended = [bar.finished_at for bar in data.bars if bar.finished_at is not None]
    return max(ended) - min(ended) if ended else None
