"""Fixes of an aborted write on the page of its conflict, their trials, and its job run again.

Each fix has its button, and the result of its trial by a worker on a copy of the table. Before the
job is run again the page shows the forecast, and afterwards the outcome.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from kombu.exceptions import OperationalError

from engine.conflicts.isolation import IsolationLevel
from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.conflict_detail.advice import PASSES, ConflictAdvice, advice
from lakeui.conflicts.conflict_detail.rerun import (
    AS_IT_WAS,
    ConflictRerun,
    LaterCommit,
    find_later_commit,
    rerun_conflict,
    reruns_of,
)
from lakeui.conflicts.conflict_detail.sides import (
    DAYS,
    BothSides,
    SimilarConflicts,
    both_sides,
    similar_conflicts,
)
from lakeui.conflicts.conflict_detail.trials import TrialAnswer, ask_for_trials, trials_view
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict, ConflictTrials
from lakeui.jobs.models import Job
from lakeui.monitoring.outlook import JobForecast, forecast_of
from lakeui.pages.jobs.jobs import STOP_POLLING
from lakeui.task_names import NO_WORKER_ASKED

ABORTED = "aborted"
_RELAXED = IsolationLevel.WRITE_SERIALIZABLE
_PAGES = {
    "eligibility": ("table-eligibility", "", "Open eligibility"),
    "isolation": ("table-isolation", f"?level={_RELAXED}", f"Preview {_RELAXED}"),
}
"""The pages of a table where a fix is made: name, query and the words of the button."""


@dataclass(frozen=True, slots=True)
class FixAction:
    """A fix, its button's address and label, and the result of its trial.

    `rest_address` is the form of a statement for the rows that the fix leaves out.
    """

    advice: ConflictAdvice
    address: str
    label: str
    tried: TrialAnswer | None = None
    rest_address: str = ""

    @property
    def verdict(self) -> str:
        """The verdict of a trial, if there was one; else that of the record."""
        landed = self.tried.would_have_landed if self.tried else None
        if landed is None:
            return self.advice.verdict
        return PASSES if landed else ABORTED

    @property
    def condition(self) -> str:
        """The condition to add, if that is the advice."""
        return self.advice.condition

    @property
    def helped_text(self) -> str:
        """How often it would have helped, as a sentence."""
        return self.advice.history.format(helped=self.advice.helped, of=self.advice.of)


def fixes_context(
    request: HttpRequest,
    conflict: Conflict,
    sides: BothSides,
    like: SimilarConflicts,
    landed: LaterCommit | None,
) -> dict[str, Any]:
    """Return the context of the list of fixes."""
    may_write = conflict.table is not None and may(request.user, "write", conflict.table)
    trials = trials_view(conflict, Reader(request.user))
    return {
        "acts": [
            _act(option, conflict, landed, trials.answer_of(option.kind), may_write=may_write)
            for option in advice(conflict, sides, like)
        ],
        "trials": trials,
        "landed": landed,
        "similar_days": DAYS,
    }


def _act(
    piece: ConflictAdvice,
    conflict: Conflict,
    landed: LaterCommit | None,
    tried: TrialAnswer | None,
    *,
    may_write: bool,
) -> FixAction:
    table, job = conflict.table_id, conflict.job
    address, label = "", ""
    if piece.act == "job" and job is not None:
        address, label = "#rerun", "Run again below"
        if landed is not None:
            address = reverse("job", args=[landed.job_id or job.pk])
            label = f"Done as v{landed.version}"
    elif piece.act == "schedule" and job is not None and job.schedule_id:
        where = f"?table={job.table_id}#schedule-{job.schedule_id}"
        address, label = f"{reverse('schedule-list')}{where}", "Open schedules"
    elif table is None or not may_write:
        pass
    elif piece.act == "sql" and piece.sql:
        address, label = _form_address(conflict, piece.sql), "Open as a new job"
    elif piece.act == "schedules":
        address, label = f"{reverse('schedule-list')}?table={table}", "Open schedules"
    elif piece.is_advised and piece.act in _PAGES:
        page, query, label = _PAGES[piece.act]
        address = reverse(page, args=[table]) + query
    rest = _form_address(conflict, piece.rest_sql) if may_write and piece.rest_sql else ""
    return FixAction(piece, address, label, tried, rest)


def _form_address(conflict: Conflict, sql: str) -> str:
    return f"{reverse('job-new')}?{urlencode({'table': conflict.table_id, 'sql': sql})}"


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
        messages.success(request, "Queued again. This page shows the result.")


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


@never_cache
@login_required
def conflict_trials(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a worker try every fix on POST; for htmx, render the results so far."""
    visible = visible_conflicts(request.user)
    related = ("table", "job", "transaction__pipeline")
    conflict = get_object_or_404(visible.select_related(*related), pk=pk)
    place = f"{reverse('conflict', args=[pk])}#remedies"
    if request.method == "POST":
        _ask(request, conflict)
        return redirect(place)
    if not request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return redirect(place)
    sides = both_sides(conflict, Reader(request.user))
    like = similar_conflicts(visible, conflict)
    context = fixes_context(request, conflict, sides, like, find_later_commit(conflict))
    context |= {"conflict": conflict, "sides": sides}
    status = 200 if context["trials"].waits else STOP_POLLING
    return render(request, "conflicts/_remedies.html", context, status=status)


def _ask(request: HttpRequest, conflict: Conflict) -> None:
    condition = request.POST.get("condition", "").strip()
    try:
        ask_for_trials(conflict, Reader(request.user), condition)
    except EngineError as error:
        messages.error(request, str(error))
    except (OperationalError, OSError):
        messages.error(request, NO_WORKER_ASKED)
