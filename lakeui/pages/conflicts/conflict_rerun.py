"""An aborted job run again on the page of its conflict: the forecast before, the outcome afterwards."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from engine.errors import EngineError
from lakeui.conflicts.conflict_detail.later_commit import LaterCommit, find_later_commit
from lakeui.conflicts.conflict_detail.rerun import (
    AS_IT_WAS,
    ConflictRerun,
    rerun_conflict,
    reruns_of,
)
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict, ConflictTrials
from lakeui.jobs.models import Job
from lakeui.monitoring.outlook import JobForecast, forecast_of
from lakeui.pages.jobs.jobs import STOP_POLLING


@never_cache
@login_required
def conflict_rerun(request: HttpRequest, pk: int) -> HttpResponse:
    """Run the job again on POST; for htmx, render its current state."""
    visible = visible_conflicts(request.user)
    conflict = get_object_or_404(visible.select_related("table", "job__table"), pk=pk)
    place = f"{reverse('conflict', args=[pk])}#rerun"
    if request.method == "POST":
        _run(request, conflict)
        return redirect(place)
    if not request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return redirect(place)
    context = rerun_context(request, conflict, find_later_commit(conflict))
    status = 200 if context["rerun_is_active"] else STOP_POLLING
    return render(request, "conflicts/_rerun.html", context, status=status)


def rerun_context(
    request: HttpRequest, conflict: Conflict, landed: LaterCommit | None
) -> dict[str, Any]:
    """Return the panel's context: the ways with one's forecast, and the last result."""
    condition = _condition(request, conflict)
    reruns = reruns_of(conflict, request.user, landed, condition)
    fix = request.GET.get("fix", AS_IT_WAS)
    picked = next((way for way in reruns.ways if way.fix == fix), None) or next(
        iter(reruns.ways), None
    )
    latest = reruns.latest
    asks = "fix" in request.GET or bool(request.htmx)  # type: ignore[attr-defined]  # by its middleware
    return {
        "conflict": conflict,
        "reruns": reruns,
        "picked_way": picked,
        "rerun_condition": condition,
        "rerun_forecast": _forecast(conflict, picked) if picked and asks else None,
        "rerun_is_active": latest is not None and latest.is_active,
        "rerun_has_committed": latest is not None and latest.state == Job.State.SUCCEEDED,
        "rerun_conflict": _find_last_conflict(latest),
        "landed": landed,
    }


def _run(request: HttpRequest, conflict: Conflict) -> None:
    given = {
        name: request.POST.get(name, "").strip()
        for name in ("fix", "condition", "confirm", "reason")
    }
    given["fix"] = given["fix"] or AS_IT_WAS
    try:
        rerun_conflict(conflict, request.user, **given)  # type: ignore[arg-type]  # signed in
    except EngineError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "Queued again. What comes of it shows here.")


def _condition(request: HttpRequest, conflict: Conflict) -> str:
    """Return the last tried condition, or the one in the address."""
    if "condition" in request.GET:
        return request.GET["condition"].strip()
    tried = ConflictTrials.objects.filter(conflict=conflict).values_list("condition", flat=True)
    return tried.first() or ""


def _forecast(conflict: Conflict, way: ConflictRerun) -> JobForecast | None:
    if conflict.table is None:
        return None
    return forecast_of(conflict.table, way.command.kind, way.parameters)


def _find_last_conflict(job: Job | None) -> Conflict | None:
    """Return the conflict that aborted the last run."""
    if job is None or job.state != Job.State.CONFLICTED:
        return None
    aborted = job.conflicts.filter(kind=Conflict.Kind.ABORTED)
    return aborted.defer("facts").order_by("-attempt", "-pk").first()
