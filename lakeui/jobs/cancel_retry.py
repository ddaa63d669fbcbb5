"""Cancelling a job, and running it again."""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, F, Value, When
from django.utils import timezone

from engine.commands.model import Command, Create
from engine.commands.script import commits_by_step
from engine.errors import RequestError
from lakeui.catalog.access import action_for_kind, may
from lakeui.catalog.command_tables import Reader
from lakeui.jobs.command_rules import check_allowed, check_command, check_sources, command_of
from lakeui.jobs.errors import JobStateError, NotPermittedError
from lakeui.jobs.events import log_event
from lakeui.jobs.filters import check_readable
from lakeui.jobs.job_rows import JobOptions, build_job, write_job
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.trail import record_act

RETRYABLE = (Job.State.FAILED, Job.State.CONFLICTED, Job.State.CANCELLED)
"""Final states of a job that may be retried."""


def cancel_job(job: Job, by: User | None) -> Job:
    """Cancel a job: at once if no worker began it, otherwise when its tasks have ended.

    After the commit began it is too late, and the job will succeed. A job queued again after its
    worker fell silent may have committed: the next worker checks that, and does nothing else.

    Raises:
        NotPermittedError: neither its owner nor allowed to request such a job.
        JobStateError: it has ended.
    """
    _check_may_touch(job, by)
    now = timezone.now()
    who = by.get_username() if by else "the system"
    unbegun = Job.objects.filter(pk=job.pk, state=Job.State.QUEUED, attempts=0)
    cancelled = unbegun.update(state=Job.State.CANCELLED, cancel_requested_at=now, finished_at=now)
    active = Job.objects.filter(pk=job.pk, state__in=Job.ACTIVE)
    committing = When(state=Job.State.COMMITTING, then=F("state"))
    asked = cancelled or active.filter(cancel_requested_at=None).update(
        cancel_requested_at=now, state=Case(committing, default=Value(Job.State.CANCELLING))
    )
    if asked:
        log_event(job.pk, f"Cancelled by {who}" if cancelled else f"{who} requested to cancel")
        record_act("cancelled" if cancelled else "cancellation requested", by, job)
    elif not active.exists():
        job.refresh_from_db()
        raise JobStateError("cancelled", job.state)  # noqa: EM101 - a word of the sentence
    job.refresh_from_db()
    return job


def retry_job(job: Job, by: User | None, changed: Command | None = None, reason: str = "") -> Job:
    """Request a new job for the rest of an ended job, or for `changed` instead.

    If it failed, or lost a worker, before its commit was known, the retry keeps its transaction id,
    so that
    it finds that commit instead of writing twice: then it cannot run another command. A script
    continues
    with the remaining steps.

    Raises:
        JobStateError: it has not ended, it succeeded, or it runs again already.
        NotPermittedError, ReadOnlyError, RequestError: see `requests.request_job`.
    """
    if job.state not in RETRYABLE:
        raise JobStateError("retried", job.state)  # noqa: EM101 - a word of the sentence
    return _run_again(job, by, changed, reason)


def rerun_job(job: Job, by: User | None) -> Job:
    """Request a new job with an ended job's command; run a successful job once more.

    An unsuccessful job is retried, see `retry_job`.

    Raises:
        JobStateError: it has not ended, it created its table, or it runs again already.
        NotPermittedError, ReadOnlyError, RequestError: see `requests.request_job`.
    """
    if job.is_active or (job.state == Job.State.SUCCEEDED and job.kind == Create.kind):
        raise JobStateError("rerun", job.state)  # noqa: EM101 - a word of the sentence
    return _run_again(job, by)


def hold_reruns(job: Job) -> None:
    """Lock reruns of the same request until the transaction ends.

    Of two concurrent requests, the second finds the job of the first: see `runs_again`.
    """
    Job.objects.select_for_update().get(pk=_first(job).pk)


def runs_again(job: Job) -> bool:
    """Whether a run of the same request is under way: this job's, its reruns', or one between them."""
    family = [_first(job).pk]
    while family:
        reruns = list(Job.objects.filter(retry_of__in=family).values_list("pk", "state"))
        if any(state in Job.ACTIVE for _, state in reruns):
            return True
        family = [pk for pk, _ in reruns]
    return False


def _first(job: Job) -> Job:
    """Return the original job of a chain of retries."""
    while job.retry_of is not None:
        job = job.retry_of
    return job


def _run_again(job: Job, by: User | None, changed: Command | None = None, reason: str = "") -> Job:
    if by is not None:
        check_readable(job, Reader(by), "Running this job again")
    may_have_landed = _may_have_landed(job)
    if changed is not None and may_have_landed:
        msg = "It is not known whether an earlier attempt of this job was committed."
        raise RequestError(
            msg, "First run the same statement again. It detects an earlier commit.", field="fix"
        )
    command = changed or command_of(job)
    check_allowed(by, command, job.table)
    check_command(command, job.table)
    check_sources(command, by)
    options = JobOptions(
        dry_run=job.dry_run,
        retries=job.max_retries,
        time_limit_s=job.time_limit_s or 0,
        reason=reason or job.reason,
    )
    again = build_job(job.table, command, by, options)
    again.retry_of = job
    has_rest = job.state != Job.State.SUCCEEDED
    if has_rest and (may_have_landed or (changed is None and commits_by_step(command))):
        again.txn_id, again.base_version = job.txn_id, job.base_version
    with transaction.atomic():
        hold_reruns(job)
        if runs_again(job):
            raise JobStateError("run once more", "running again")  # noqa: EM101, TRY003 - its words
        made = write_job(again, command)
        record_act("retried", by, job)
    return made


def _may_have_landed(job: Job) -> bool:
    if job.base_version is None:
        return False
    without_worker = job.attempt_rows.filter(outcome=JobAttempt.Outcome.LOST)
    return job.state == Job.State.FAILED or without_worker.exists()


def _check_may_touch(job: Job, by: User | None) -> None:
    action = action_for_kind(job.kind, job.parameters)
    if by is None or by.pk == job.requested_by_id or may(by, action, job.table):
        return
    what = "Cancelling this job"
    raise NotPermittedError(what, action, job.table.name)
