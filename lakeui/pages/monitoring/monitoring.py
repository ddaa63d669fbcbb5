"""Workers, queues, Spark, the mirror and current problems: also for a wall screen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.reads import cancel_read, filter_cancellable, list_reads
from lakeui.monitoring.deliveries import outboxes
from lakeui.monitoring.health import readiness
from lakeui.monitoring.operations import queues
from lakeui.monitoring.recent_conflicts import day_of
from lakeui.monitoring.worker_state import Hour, spark_sum, throughput, worker_states
from lakeui.pages.overview.attention import build_attention

_LAGGING_SHOWN = 10
_ITEMS = 20  # of each condition that needs attention


@login_required
def monitoring(request: HttpRequest) -> HttpResponse:
    """Render the page; the broker's answers are a separate fragment that delays nothing."""
    is_fragment = bool(request.htmx)  # type: ignore[attr-defined]  # by its middleware
    asks = request.GET.get("ask") == "workers"
    parts = {"parts": readiness(), "asked": True} if asks else {"asked": False}
    if is_fragment and asks:
        return render(request, "monitoring/_answers.html", parts)
    context = _now(request) | parts | {"twin": "/api/v1/monitoring/"}
    context["may_see_alerts"] = may(request.user, "maintain")
    context["outboxes"] = outboxes() if context["may_see_alerts"] else ()
    template = "monitoring/_now.html" if is_fragment else "monitoring/monitoring.html"
    return render(request, template, context)


@require_POST
@login_required
def cancel_person_read(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a read that a person waits for: one's own, or of a table that one may maintain."""
    reads = list_reads(request.user)
    read = get_object_or_404(reads, pk=pk)
    if not filter_cancellable(reads, request.user).filter(pk=pk).exists():
        raise PermissionDenied
    cancel_read(read)
    return redirect("monitoring")


def _now(request: HttpRequest) -> dict[str, Any]:
    now = timezone.now()
    tables, reads = visible_tables(request.user), list_reads(request.user)
    states = worker_states(request.user)
    waiting = queues()
    jobs = throughput(request.user, now)
    mirrored = tables.filter(mirrored_at__isnull=False).order_by("mirrored_at")
    lagging = list(mirrored.only("name", "version", "mirrored_at", "mirror_error")[:_LAGGING_SHOWN])
    _, needed = build_attention(request, now, day_of(request.user, now), _ITEMS)
    return needed | {
        "now": now,
        "queues": waiting,
        "waiting": sum(queue.waiting for queue in waiting),
        "oldest": min((q.oldest_waiting_at for q in waiting if q.oldest_waiting_at), default=None),
        "workers": states,
        "reads": reads,
        "cancellable": set(filter_cancellable(reads, request.user).values_list("pk", flat=True)),
        "here": sum(state.is_here for state in states),
        "slots": sum(state.report.slots for state in states if state.is_here),
        "busy": sum(state.busy for state in states if state.is_here),
        "spark": spark_sum(states),
        "throughput": jobs,
        "chart": draw_outcomes(jobs.hours),
        "lagging": lagging,
        "unread": tables.filter(mirrored_at__isnull=True, mirror_error_code="").count(),
    }


_HEIGHT, _BASE = 96, 112
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class HourColumn:
    """One hour; heights in pixels, places in per cent."""

    hour: Hour
    x: float
    width: float
    well_y: float
    well_height: float
    unsuccessful_y: float
    unsuccessful_height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def mark_y(self) -> float:
        """Where the cross of an hour with aborted writes stands."""
        return self.unsuccessful_y - 14

    @property
    def start(self) -> datetime:
        return self.hour.start


@dataclass(frozen=True, slots=True)
class JobOutcomes:
    columns: tuple[HourColumn, ...]
    highest: int


def draw_outcomes(hours: Sequence[Hour]) -> JobOutcomes:
    """Draw columns of hours in order."""
    highest = max((hour.ended for hour in hours), default=0)
    step = 100 / max(len(hours), 1)
    columns = (_column(place, step, hour, highest or 1) for place, hour in enumerate(hours))
    return JobOutcomes(tuple(columns), highest)


def _column(place: int, step: float, hour: Hour, highest: int) -> HourColumn:
    well, unsuccessful = (
        max(_HEIGHT * count / highest, _LEAST) if count else 0.0
        for count in (hour.ended - hour.unsuccessful, hour.unsuccessful)
    )
    return HourColumn(
        hour=hour,
        x=place * step + step * 0.12,
        width=step * 0.76,
        well_y=_BASE - well,
        well_height=well,
        unsuccessful_y=_BASE - well - unsuccessful,
        unsuccessful_height=unsuccessful,
    )
