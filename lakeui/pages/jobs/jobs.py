"""The list of jobs, and the page of a job."""

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from engine.commands.model import COMMANDS
from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.hours import RANGES
from lakeui.jobs.cancel_retry import cancel_job, rerun_job
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.filters import WITHHELD, JobFilter, redact_job, state_counts, visible_jobs
from lakeui.jobs.models import Job
from lakeui.jobs.row_impact import asks_name
from lakeui.jobs.timeline import costs_of
from lakeui.pages.exports import CHUNK, export
from lakeui.pages.jobs.job_context import job_context, rerun_context
from lakeui.pages.listing import ListPage, one_table
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
STOP_POLLING = 286  # htmx: show this and stop polling


@dataclass(frozen=True, slots=True)
class Chip:
    """A state to show alone, with how many jobs are in it."""

    state: str
    label: str
    count: int
    is_picked: bool


@login_required
def job_list(request: HttpRequest) -> HttpResponseBase:
    # a join with the small table of people would make SQLite drop the ordered index
    jobs = visible_jobs(request.user).select_related("table").prefetch_related("requested_by")
    listing, reader = ListPage(request, JobFilter(request.GET, jobs)), Reader(request.user)
    if "export" in request.GET and listing.is_valid:
        rows = (redact_job(job, reader) for job in listing.rows.iterator(chunk_size=CHUNK))
        return export(rows, COLUMNS, request.GET["export"], "jobs")
    table = one_table(request)
    counts = _counts(request, jobs)
    listing.known_total = _total(request, counts) if listing.is_valid else None
    context = {
        "listing": listing,
        "jobs": [redact_job(job, reader) for job in listing.page] if listing.is_valid else [],
        "chips": _chips(request, counts),
        "costs": costs_of(listing.page) if listing.is_valid else {},
        "table": table,
        "time_range": RANGES.get(request.GET.get("range", "")),
        "head": table_head(request, table, "jobs") if table and not _is_fragment(request) else None,
        "states": Job.State.choices,
        "kinds": sorted(COMMANDS),
        "may_start": may(request.user, "write", table),
        "twin": listing.twin("/api/v1/jobs/"),
    }
    template = "jobs/_rows.html" if _is_fragment(request) else "jobs/jobs.html"
    return render(request, template, context, status=listing.status)


@login_required
def job_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = _visible_job(request, pk)
    context = job_context(request, job)
    if not _is_fragment(request):
        return render(request, "jobs/job.html", context)
    status = 200 if job.is_active else STOP_POLLING
    return render(request, "jobs/_live.html", context | {"is_fragment": True}, status=status)


@login_required
def job_log(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the whole log as text."""
    job = _visible_job(request, pk)
    if not Reader(request.user).may_read(job):
        raise PermissionDenied(WITHHELD)
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
            request,
            "Cancelled." if not job.is_active else "Cancelling. Its tasks are being stopped.",
        )
    return redirect("job", pk)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def job_rerun(request: HttpRequest, pk: UUID) -> HttpResponse:
    """POST runs an ended job again and stays on its page; htmx gets the panel, or its list by GET."""
    job = _visible_job(request, pk)
    refusal = _refusal_to_rerun(request, job) if request.method == "POST" else ""
    if _is_fragment(request):
        reader = Reader(request.user)
        context = rerun_context(request, job, may_read=reader.may_read(job))
        context |= {"job": redact_job(job, reader), "refusal": refusal}
        whole = request.method == "POST"
        return render(request, f"jobs/_rerun{'' if whole else '_jobs'}.html", context)
    if refusal:
        messages.error(request, refusal)
    elif request.method == "POST":
        messages.success(request, "Queued again. The new job is listed under Run again.")
    return redirect(f"{reverse('job', args=[pk])}#rerun")


def _refusal_to_rerun(request: HttpRequest, job: Job) -> str:
    """Return why it was not queued again; empty if it was."""
    try:
        asks = asks_name(command_of(job)) and not job.dry_run
        if asks and request.POST.get("confirm") != job.table.name:
            return f"Type {job.table.name} to confirm. Nothing was queued."
        rerun_job(job, request.user)  # type: ignore[arg-type]  # signed in
    except EngineError as error:
        return str(error)
    return ""


def _counts(request: HttpRequest, jobs: QuerySet[Job]) -> dict[str, int]:
    """Count jobs by state, filtered by the other filters."""
    others = request.GET.copy()
    others.pop("state", None)
    filters = JobFilter(others, jobs)
    return state_counts(filters.qs) if filters.is_valid() else {}


def _total(request: HttpRequest, counts: dict[str, int]) -> int:
    chosen = {state for state in request.GET.getlist("state") if state}
    if "active" in chosen:
        chosen |= {*map(str, Job.ACTIVE)}
    states = (chosen or counts.keys()) - {"active"}
    return sum(counts.get(state, 0) for state in states)


def _chips(request: HttpRequest, counts: dict[str, int]) -> list[Chip]:
    """Return chips of states: all, active, then each final state."""
    picked = [state for state in request.GET.getlist("state") if state]
    all_of_them = sum(n for state, n in counts.items() if state != "active")
    ended = ((str(state), state.label) for state in Job.ENDED)
    chips = [Chip("", "All", all_of_them, is_picked=not picked)]
    for state, label in (("active", "Active"), *ended):
        name = "Conflict" if state == Job.State.CONFLICTED else label.capitalize()
        chips.append(Chip(state, name, counts.get(state, 0), is_picked=picked == [state]))
    return chips


def _visible_job(request: HttpRequest, pk: UUID) -> Job:
    jobs = visible_jobs(request.user).select_related(
        "table", "requested_by", "retry_of", "schedule"
    )
    return get_object_or_404(jobs, pk=pk)


def _is_fragment(request: HttpRequest) -> bool:
    return bool(request.htmx)  # type: ignore[attr-defined]  # by its middleware
