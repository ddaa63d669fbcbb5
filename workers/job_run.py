"""One attempt at a job, from its lease to its ending.

Whatever happens here ends in one row: the state of the job. A worker that dies leaves an expired
lease instead, and the next one finds its commit in the log, if it made one.
"""

import logging
import traceback
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from engine.commands.model import Command, Script
from engine.errors import ConflictError, EngineError, OperationCancelledError
from engine.log.commits import Commit
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.script import ScriptError
from lakeui.catalog.log_values import json_value, text
from lakeui.catalog.mirror import refresh_table
from lakeui.jobs import leases
from lakeui.jobs.command_rules import check_command, check_rights, command_of, readable_table
from lakeui.jobs.errors import LeaseLostError, ReadOnlyError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from workers import spark_session
from workers.follow_ups import asks_for_follow_ups, note_unasked
from workers.heartbeat import Heartbeat
from workers.job_tables import (
    oldest_other_start_ms,
    open_table,
    other_writers,
    stop_if_committed,
)
from workers.observation import JobObserver, OwnCommitFoundError
from workers.rehearsal import announce_end
from workers.script import ScriptWork, run_script

logger = logging.getLogger(__name__)

Outcome = JobAttempt.Outcome


@dataclass(frozen=True)
class Ending:
    """How an attempt ended: the job's state, the attempt's outcome, and what the row shall say."""

    state: Job.State
    outcome: JobAttempt.Outcome
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


def run_attempt(lease: leases.Lease) -> None:
    """Do the job under a lease and write down how it ended."""
    job = Job.objects.select_related("table", "requested_by").get(pk=lease.job_id)
    try:
        with Heartbeat(lease) as heartbeat:
            ending = _ending(job, lease, heartbeat)
            heartbeat.end_stages()
            refresh_table(job.table)
            _finish(job, lease, ending)
    except LeaseLostError:
        logger.warning("The lease of job %s went to another worker: this one stops", job.pk)
        return
    announce_end(job.pk)


def _ending(job: Job, lease: leases.Lease, heartbeat: Heartbeat) -> Ending:
    try:
        return _done(_perform(job, lease, heartbeat), dry_run=job.dry_run)
    except LeaseLostError:
        raise
    except ScriptError as error:
        if isinstance(error.cause, LeaseLostError):
            raise error.cause from error
        return _ending_of_script(error)
    except Exception as error:  # noqa: BLE001 - a fault of ours must end the job, not the worker
        return _ending_after(_what_happened(error, job), heartbeat)


def _ending_of_script(error: ScriptError) -> Ending:
    """As its failed step ended; what came before stays, as the message says."""
    match error.cause:
        case OperationCancelledError():
            return _failed(Job.State.CANCELLED, Outcome.CANCELLED, error)
        case ConflictError():
            return _failed(Job.State.CONFLICTED, Outcome.CONFLICTED, error)
        case _:
            return _failed(Job.State.FAILED, Outcome.FAILED, error)


def _what_happened(error: Exception, job: Job) -> Exception:
    """The job's own commit, where the log holds it: what came after it undoes nothing."""
    is_told = isinstance(error, EngineError) and not isinstance(error, OperationCancelledError)
    if is_told or not Job.objects.filter(pk=job.pk, state=Job.State.COMMITTING).exists():
        return error
    try:
        stop_if_committed(job, open_table(job.table.uri))
    except OwnCommitFoundError as landed:
        logger.warning("Job %s had committed before it ended", job.pk, exc_info=error)
        return landed
    except EngineError:
        logger.exception("Whether job %s committed cannot be told", job.pk)
    return error


def _ending_after(error: Exception, heartbeat: Heartbeat) -> Ending:
    match error:
        case OwnCommitFoundError():
            ending = _recognised(error.commit)
        case OperationCancelledError():
            ending = Ending(Job.State.CANCELLED, Outcome.CANCELLED, str(error))
        case ConflictError():
            ending = _failed(Job.State.CONFLICTED, Outcome.CONFLICTED, error)
        case EngineError():
            ending = _failed(Job.State.FAILED, Outcome.FAILED, error)
        case _:
            ending = _crashed(error, heartbeat)
    return ending


def _perform(job: Job, lease: leases.Lease, heartbeat: Heartbeat) -> OperationResult:
    table = open_table(job.table.uri)
    stop_if_committed(job, table)
    command = _checked_command(job)
    with spark_session.session_for(job.pk) as spark:
        if isinstance(command, Script):
            return run_script(command, job, ScriptWork(lease, heartbeat, spark))
        result = run(
            command,
            table,
            spark,
            txn_id=str(job.txn_id),
            retries=job.max_retries,
            observer=JobObserver(job, lease, heartbeat, table.store),
            progress=heartbeat.progress,
            running_since_ms=oldest_other_start_ms(job),
            resolve=lambda name: open_table(readable_table(name, job.requested_by).uri),
            dry_run=job.dry_run,
            user_name=job.requested_by.get_username() if job.requested_by else None,
            writers_elsewhere=other_writers(job) if job.dry_run else None,
            then=asks_for_follow_ups(job, job.table),
        )
        note_unasked(job, result)
        return result


def _checked_command(job: Job) -> Command:
    """The command, checked again as the person who asked: roles and roots may have changed."""
    if settings.READ_ONLY:
        raise ReadOnlyError
    command = command_of(job)
    check_rights(command, job.table, job.requested_by)
    check_command(command, job.table)
    return command


def _done(result: OperationResult, *, dry_run: bool) -> Ending:
    fields = {
        "committed_version": result.version,
        "metrics": json_value(dict(result.metrics)),
        "plan": json_value(result.plan.as_dict()) if result.plan else {},
    }
    if result.version is None and not result.versions:
        nothing = "Dry run: nothing was written" if dry_run else "Nothing had to change"
        message = result.message or nothing
        return Ending(Job.State.SUCCEEDED, Outcome.NOTHING_TO_DO, message, fields)
    message = result.message or f"Committed version {result.version}"
    return Ending(Job.State.SUCCEEDED, Outcome.COMMITTED, message, fields)


def _recognised(commit: Commit) -> Ending:
    metrics = (commit.commit_info and commit.commit_info.operation_metrics) or {}
    return Ending(
        Job.State.SUCCEEDED,
        Outcome.COMMITTED,
        f"An earlier attempt had committed version {commit.version}",
        {"committed_version": commit.version, "metrics": json_value(metrics)},
    )


def _failed(state: Job.State, outcome: JobAttempt.Outcome, error: EngineError) -> Ending:
    facts = {
        "error_code": error.code,
        "error_message": text(error),
        "error_facts": json_value(error.facts()),
    }
    return Ending(state, outcome, text(error), facts)


def _crashed(error: Exception, heartbeat: Heartbeat) -> Ending:
    if heartbeat.cancelled:  # Spark was interrupted: its own error says less
        return Ending(Job.State.CANCELLED, Outcome.CANCELLED, "Cancelled while it ran")
    logger.error("A job failed", exc_info=error)
    lines = traceback.format_exception_only(error)
    message = f"An internal error ended the job: {text(''.join(lines).strip(), 2000)}"
    fields = {"error_code": "LAKE_INTERNAL", "error_message": message}
    return Ending(Job.State.FAILED, Outcome.FAILED, message, fields)


def _finish(job: Job, lease: leases.Lease, ending: Ending) -> None:
    """The job, its attempt and its log end in one step: a worker that dies in it leaves all three."""
    level = JobEvent.Level.INFO if ending.state == Job.State.SUCCEEDED else JobEvent.Level.ERROR
    with transaction.atomic():
        leases.finish(lease, ending.state, **ending.fields)
        JobAttempt.objects.filter(job=job, outcome=Outcome.RUNNING).update(
            outcome=ending.outcome, finished_at=timezone.now(), message=ending.message
        )
        log_event(job.pk, ending.message, level)
        if ending.state == Job.State.SUCCEEDED and _was_cancelled(job):
            log_event(job.pk, "The cancellation came after the commit", JobEvent.Level.WARNING)


def _was_cancelled(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, cancel_requested_at__isnull=False).exists()
