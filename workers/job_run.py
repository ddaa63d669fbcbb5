"""One attempt at a job, from its lease to its end.

Every outcome is stored in one row: the state of the job. A worker that dies leaves an expired lease
instead, and the next worker finds its commit in the log, if it made one.
"""

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from engine.commands.model import Command
from engine.commands.script import commits_by_step
from engine.errors import ConflictError, EngineError, OperationCancelledError
from engine.log.commits import LogCommit
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.script import ScriptError
from lakeui.catalog.log_values import json_value
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.reads import ReadStoppedError
from lakeui.jobs import leases
from lakeui.jobs.command_rules import check_command, check_rights, check_sources, command_of
from lakeui.jobs.errors import (
    LeaseLostError,
    ReadOnlyError,
    RequesterGoneError,
    TimeLimitError,
)
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from lakeui.jobs.writers import note_changed_tables
from workers import spark_session
from workers.failures import error_fields, fault_fields, hand_back, outage_behind, patiently
from workers.heartbeat import START, SYNC, Heartbeat
from workers.job_tables import note_unasked, open_table, options_of, stop_if_committed
from workers.observation import JobObserver, OwnCommitFoundError
from workers.rehearsal import announce_end
from workers.script import ScriptWork, run_script
from workers.traces import trace_attempts

logger = logging.getLogger(__name__)

Outcome = JobAttempt.Outcome
_NOTHING_WRITTEN = "Nothing was written."


@dataclass(frozen=True)
class AttemptEnd:
    """The end of an attempt: the job's state, the attempt's outcome, and the row's message."""

    state: Job.State
    outcome: JobAttempt.Outcome
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


def run_attempt(lease: leases.Lease) -> None:
    """Do the job under a lease and write down how it ended; after an outage, hand it back."""
    try:
        _attempt(lease)
    except LeaseLostError:
        logger.warning(
            "Another worker has taken the lease of job %s, so this worker stops", lease.job_id
        )
        return
    except Exception as error:
        outage = outage_behind(error)
        if outage is None:
            raise
        logger.warning("An outage ended an attempt", exc_info=error)
        hand_back(lease, outage)
    announce_end(lease.job_id)
    trace_attempts(lease)


def end_dry_run(job_id: UUID, error: EngineError | None = None) -> None:
    """End a dry run whose process could not: by an error, else by its time limit."""
    running = Job.objects.filter(pk=job_id, state__in=Job.AT_WORK, dry_run=True)
    job = running.select_related("table").first()
    if job is None:
        return
    lease = leases.Lease(job, job.worker, job.fence, job.attempts)
    error = error or TimeLimitError(job.time_limit_s or settings.DRY_RUN_SECONDS)
    _finish(job, lease, _end_as_failed(Job.State.FAILED, Outcome.FAILED, error))
    announce_end(job_id)


def _attempt(lease: leases.Lease) -> None:
    job = lease.job
    _note_session(job, lease)
    with Heartbeat(lease, job.time_limit_s) as heartbeat:
        stages = heartbeat.progress.stages
        try:
            stages.enter(START)
            ending = _perform_to_end(job, lease, heartbeat)
            if not job.dry_run:  # a worker for reads may lack the memory of a sync
                stages.enter(SYNC)
                refresh_table(job.table)
        finally:
            heartbeat.end_stages()
        patiently(partial(_finish, job, lease, ending))


def _note_session(job: Job, lease: leases.Lease) -> None:
    """Write down when Spark was started here, if the job was requested before it was ready."""
    started = spark_session.start_times()
    if started is not None and started[1] > job.created_at:
        JobAttempt.objects.filter(job=job, number=lease.attempt).update(
            session_from=started[0], session_until=started[1]
        )


def _perform_to_end(job: Job, lease: leases.Lease, heartbeat: Heartbeat) -> AttemptEnd:
    try:
        return _end_as_succeeded(_perform(job, lease, heartbeat), dry_run=job.dry_run)
    except LeaseLostError:
        raise
    except ScriptError as error:
        if isinstance(error.cause, LeaseLostError):
            raise error.cause from error
        cause = _find_cancellation(heartbeat) if outage_behind(error) else error.cause
        if cause is None:
            raise
        return _end_of_script(error, cause)
    except Exception as error:  # a fault of ours must end the job, not the worker
        happened: Exception | None = _what_happened(error, job)
        if happened is error and outage_behind(error):
            happened = _find_cancellation(heartbeat)
        if happened is None:
            raise
        ending = _end_for_error(happened, job, heartbeat)
        return _mention_landed_commits(ending, heartbeat.progress.landed)


def _find_cancellation(heartbeat: Heartbeat) -> OperationCancelledError | None:
    """Return why a job must not run again after an outage: it was cancelled, or timed out."""
    try:
        heartbeat.check()
    except LeaseLostError:
        raise
    except OperationCancelledError as unwanted:
        return unwanted
    return None


def _end_of_script(error: ScriptError, cause: EngineError) -> AttemptEnd:
    """Return the end of a script by its failed step; earlier steps stay, as the message says."""
    match cause:
        case TimeLimitError():
            return _end_as_failed(Job.State.FAILED, Outcome.FAILED, error)
        case OperationCancelledError():
            return _end_as_failed(Job.State.CANCELLED, Outcome.CANCELLED, error)
        case ConflictError():
            return _end_as_failed(Job.State.CONFLICTED, Outcome.CONFLICTED, error)
        case _:
            return _end_as_failed(Job.State.FAILED, Outcome.FAILED, error)


def _what_happened(error: Exception, job: Job) -> Exception:
    """Return the job's own commit if the log has it: a later error does not undo it."""
    is_told = isinstance(error, EngineError) and not isinstance(error, OperationCancelledError)
    if is_told or not Job.objects.filter(pk=job.pk, state=Job.State.COMMITTING).exists():
        return error
    try:
        stop_if_committed(job, open_table(job.table.uri))
    except OwnCommitFoundError as landed:
        logger.warning("Job %s had committed before it ended", job.pk, exc_info=error)
        return landed
    except EngineError:
        logger.exception("It is not known whether job %s committed", job.pk)
    return error


def _end_for_error(error: Exception, job: Job, heartbeat: Heartbeat) -> AttemptEnd:
    match error:
        case OwnCommitFoundError():
            ending = _end_as_recognized(error.commit)
        case TimeLimitError():
            ending = _end_as_failed(Job.State.FAILED, Outcome.FAILED, error)
        case OperationCancelledError():
            ending = AttemptEnd(Job.State.CANCELLED, Outcome.CANCELLED, str(error))
        case ConflictError():
            ending = _end_as_failed(Job.State.CONFLICTED, Outcome.CONFLICTED, error)
        case EngineError():
            ending = _end_as_failed(Job.State.FAILED, Outcome.FAILED, error)
        case MemoryError() if job.dry_run:  # its process has a limit of memory
            limit = ReadStoppedError.memory_limit(settings.READ_BYTES)
            ending = _end_as_failed(Job.State.FAILED, Outcome.FAILED, limit)
        case _:
            ending = _end_after_fault(error, heartbeat)
    return ending


def _mention_landed_commits(ending: AttemptEnd, landed: list[int]) -> AttemptEnd:
    """Mention the versions that a job of several commits made before it failed."""
    if ending.state == Job.State.SUCCEEDED or not landed:
        return ending
    made = f"version {landed[0]}" if len(landed) == 1 else f"versions {landed[0]} to {landed[-1]}"
    stays = f"Before that, it committed {made}, which stays committed."
    message = f"{ending.message.removesuffix(_NOTHING_WRITTEN).strip()} {stays}"
    told = {"error_message": message} if ending.fields.get("error_message") else {}
    return replace(ending, message=message, fields={**ending.fields, **told})


def _perform(job: Job, lease: leases.Lease, heartbeat: Heartbeat) -> OperationResult:
    table = open_table(job.table.uri)
    stop_if_committed(job, table)
    command = _check_command(job)
    if not commits_by_step(command):  # else its steps may have committed
        heartbeat.check()
    with spark_session.session_for(job.pk) as spark:
        if commits_by_step(command):
            return run_script(command, job, ScriptWork(lease, heartbeat, spark))
        observer = JobObserver(job, lease, heartbeat, table.store)
        result = run(command, table, spark, options_of(job, job, observer, heartbeat.progress))
        note_unasked(job, result)
        if not job.dry_run:
            for other in job.also_changes.all():
                refresh_table(other)
        return result


def _check_command(job: Job) -> Command:
    """Return the command, checked again for its requester: roles and roots may have changed."""
    if settings.READ_ONLY:
        raise ReadOnlyError
    if job.requested_by is None and not job.by_system:
        raise RequesterGoneError
    command = command_of(job)
    check_rights(command, job.table, job.requested_by)
    check_command(command, job.table, knows_schema=False)  # `run` checks it by the latest one
    check_sources(command, job.requested_by)
    note_changed_tables(job, command)  # a name may have moved
    return command


def _end_as_succeeded(result: OperationResult, *, dry_run: bool) -> AttemptEnd:
    fields = {
        "committed_version": result.version,
        "metrics": json_value(dict(result.metrics)),
        "plan": json_value(result.plan.as_dict()) if result.plan else {},
    }
    if result.version is None and not result.versions:
        nothing = "Dry run: nothing was written" if dry_run else "Nothing had to change"
        message = result.message or nothing
        return AttemptEnd(Job.State.SUCCEEDED, Outcome.NOTHING_TO_DO, message, fields)
    message = result.message or f"Committed version {result.version}"
    return AttemptEnd(Job.State.SUCCEEDED, Outcome.COMMITTED, message, fields)


def _end_as_recognized(commit: LogCommit) -> AttemptEnd:
    metrics = (commit.commit_info and commit.commit_info.operation_metrics) or {}
    return AttemptEnd(
        Job.State.SUCCEEDED,
        Outcome.COMMITTED,
        f"An earlier attempt had committed version {commit.version}",
        {"committed_version": commit.version, "metrics": json_value(metrics)},
    )


def _end_as_failed(state: Job.State, outcome: JobAttempt.Outcome, error: EngineError) -> AttemptEnd:
    fields = error_fields(error)
    if state == Job.State.FAILED:
        logger.warning("A job failed: %s", fields["error_code"], exc_info=error)
    return AttemptEnd(state, outcome, fields["error_message"], fields)


def _end_after_fault(error: Exception, heartbeat: Heartbeat) -> AttemptEnd:
    if heartbeat.cancelled:  # Spark was interrupted: its own error says less
        return AttemptEnd(Job.State.CANCELLED, Outcome.CANCELLED, "Cancelled while it was running")
    logger.error("A job failed", exc_info=error)
    fields = fault_fields(error)
    return AttemptEnd(Job.State.FAILED, Outcome.FAILED, fields["error_message"], fields)


def _finish(job: Job, lease: leases.Lease, ending: AttemptEnd) -> None:
    """End the job, its attempt and its log in one transaction: a crash leaves all three running."""
    level = JobEvent.Level.INFO if ending.state == Job.State.SUCCEEDED else JobEvent.Level.ERROR
    now = timezone.now()
    with transaction.atomic():
        leases.finish(lease, ending.state, **{"finished_at": now, **ending.fields})
        JobAttempt.objects.filter(job=job, outcome=Outcome.RUNNING).update(
            outcome=ending.outcome, finished_at=now, message=ending.message
        )
        log_event(job.pk, ending.message, level, at=now)
        if ending.state == Job.State.SUCCEEDED and _was_cancelled(job):
            log_event(job.pk, "The request to cancel came after the commit", JobEvent.Level.WARNING)


def _was_cancelled(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, cancel_requested_at__isnull=False).exists()
