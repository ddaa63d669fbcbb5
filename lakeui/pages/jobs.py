"""Jobs: all of them, and one as it runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from engine.commands.model import COMMANDS
from engine.errors import EngineError
from lakeui.catalog.access import action_for_kind, may
from lakeui.conflicts.models import Conflict
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.filters import JobFilter, visible_jobs
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from lakeui.jobs.requests import cancel_job, retry_job
from lakeui.pages.exports import export
from lakeui.pages.list_table import one_table
from lakeui.pages.listing import Listing
from lakeui.pages.plans import plan_view
from lakeui.pages.table_head import table_head

COLUMNS = {
    "id": lambda j: str(j.pk),
    "table": lambda j: j.table.name,
    "kind": lambda j: j.kind,
    "dry_run": lambda j: j.dry_run,
    "state": lambda j: j.state,
    "statement": lambda j: j.statement,
    "requested_by": lambda j: j.requested_by.get_username() if j.requested_by else None,
    "created_at": lambda j: j.created_at,
    "started_at": lambda j: j.started_at,
    "finished_at": lambda j: j.finished_at,
    "attempts": lambda j: j.attempts,
    "committed_version": lambda j: j.committed_version,
    "error_code": lambda j: j.error_code,
    "error_message": lambda j: j.error_message,
}
STOP_POLLING = 286  # htmx: show this and ask no more
_LOG_LINES = 500
_RETRYABLE = (Job.State.FAILED, Job.State.CONFLICTED, Job.State.CANCELLED)


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of a job's way: "done", "now" or "waiting"."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    attempt: JobAttempt
    conflict: Conflict | None


@login_required
def job_list(request: HttpRequest) -> HttpResponseBase:
    # a join with the few people there are would make SQLite leave the index that has the order
    jobs = visible_jobs(request.user).select_related("table").prefetch_related("requested_by")
    listing = Listing(request, JobFilter(request.GET, jobs))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], "jobs")
    table = one_table(request)
    context = {
        "listing": listing,
        "table": table,
        "head": table_head(request, table, "jobs") if table and not _is_fragment(request) else None,
        "states": Job.State.choices,
        "kinds": sorted(COMMANDS),
        "may_start": may(request.user, "write", table),
        "twin": listing.twin("/api/v1/jobs/"),
    }
    template = "jobs/_rows.html" if _is_fragment(request) else "jobs/list.html"
    return render(request, template, context, status=listing.status)


@login_required
def job_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = _visible_job(request, pk)
    context = _job_context(request, job)
    if not _is_fragment(request):
        return render(request, "jobs/job.html", context)
    status = 200 if job.is_active else STOP_POLLING
    return render(request, "jobs/_live.html", context | {"is_fragment": True}, status=status)


@login_required
def job_log(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The whole log as text."""
    job = _visible_job(request, pk)
    lines = (f"{e.at.isoformat()} {e.level.upper():7} {e.message}\n" for e in job.events.all())
    response = HttpResponse("".join(lines), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="job-{job.pk}.log"'
    return response


@require_POST
@login_required
def job_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = _visible_job(request, pk)
    try:
        cancel_job(job, request.user)  # type: ignore[arg-type]  # signed in
    except NotPermittedError as error:
        messages.error(request, str(error))
    except EngineError as error:
        messages.warning(request, str(error))
    else:
        messages.success(
            request, "Cancelled." if not job.is_active else "Cancelling was asked for."
        )
    return redirect("job", pk)


@require_POST
@login_required
def job_retry(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = _visible_job(request, pk)
    try:
        again = retry_job(job, request.user)  # type: ignore[arg-type]  # signed in
    except EngineError as error:
        messages.error(request, str(error))
        return redirect("job", pk)
    messages.success(request, "Queued again as this job.")
    return redirect("job", again.pk)


def _visible_job(request: HttpRequest, pk: UUID) -> Job:
    jobs = visible_jobs(request.user).select_related("table", "requested_by", "retry_of")
    return get_object_or_404(jobs, pk=pk)


def _is_fragment(request: HttpRequest) -> bool:
    return bool(request.htmx)  # type: ignore[attr-defined]  # by its middleware


def _job_context(request: HttpRequest, job: Job) -> dict[str, Any]:
    level = request.GET.get("level", "")
    events = job.events.order_by("-at", "-pk")
    if level:
        if level not in JobEvent.Level.values:
            msg = "There is no such level of the log."
            raise Http404(msg)
        events = events.filter(level=level)
    conflicts = list(job.conflicts.order_by("attempt", "pk"))
    attempts = list(_attempts(job, conflicts))
    mine = job.requested_by_id == request.user.pk
    may_act = may(request.user, action_for_kind(job.kind, job.parameters), job.table)
    return {
        "job": job,
        "table": None,
        "attempts": attempts,
        "absorbed": [c for c in conflicts if c.kind == Conflict.Kind.ABSORBED],
        "wasted_ms": sum(c.wasted_ms for c in conflicts),
        "wasted_bytes": sum(c.wasted_bytes for c in conflicts),
        "events": list(events[:_LOG_LINES])[::-1],
        "level": level,
        "stages": _stages(job),
        "metrics": sorted(job.metrics.items()) if isinstance(job.metrics, dict) else [],
        "plan": plan_view(job.plan),
        "landed_since": _landed_since(job),
        "reruns": job.reruns.order_by("created_at")[:5],
        "may_cancel": job.is_active and not job.cancel_requested_at and (mine or may_act),
        "may_retry": job.state in _RETRYABLE and may_act,
        "now": timezone.now(),
        "twin": f"/api/v1/jobs/{job.pk}/",
    }


def _attempts(job: Job, conflicts: list[Conflict]) -> Iterator[AttemptRow]:
    lost = {c.attempt: c for c in conflicts if c.kind == Conflict.Kind.ESCAPED}
    for attempt in job.attempt_rows.order_by("-number"):
        yield AttemptRow(attempt, lost.get(attempt.number))


def _stages(job: Job) -> list[Stage]:
    """Queue, work, commit: what every kind goes through; the work names itself as it runs."""
    at = {Job.State.QUEUED: 0, Job.State.RUNNING: 1, Job.State.COMMITTING: 2}
    place = at.get(Job.State(job.state), 3 if job.state == Job.State.SUCCEEDED else 1)
    names: tuple[str, ...] = (
        "Queue",
        job.progress_stage.capitalize() or "Work",
        "Check and commit",
    )
    if job.dry_run:
        names = names[:2]
    ended = not job.is_active and job.state != Job.State.SUCCEEDED
    states = ("done" if i < place else "now" if i == place else "waiting" for i in range(3))
    return [
        Stage(name, "stopped" if ended and state == "now" else state)
        for name, state in zip(names, states, strict=False)
    ]


def _landed_since(job: Job) -> list[Any]:
    """Versions that a running job will be checked against."""
    if not job.is_active or job.dry_run:
        return []
    latest = job.attempt_rows.order_by("-number").values_list("read_version", flat=True).first()
    base = job.base_version if latest is None else latest
    if base is None:
        return []
    newer = job.table.commits.filter(version__gt=base).defer("raw").order_by("version")
    return list(newer[:10])
