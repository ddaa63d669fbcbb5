"""A table's requests after a write become jobs of their own: the write does not wait for them."""

from engine.commands.model import Command
from engine.operations.options import FollowUpRunner
from engine.operations.result import OperationResult
from lakeui.catalog.models import Table
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobEvent
from lakeui.jobs.requests import request_job


def asks_for_follow_ups(job: Job, table: Table) -> FollowUpRunner:
    """Has the follow-ups of a job's writes to a table queued."""

    def ask(command: Command) -> None:
        request_follow_up(job, table, command)

    return ask


def note_unasked(job: Job, result: OperationResult) -> None:
    """Log that a follow-up could not be requested: the write stands."""
    if result.follow_up is not None and result.follow_up.error:
        message = f"Small files stay as they are: {result.follow_up.error}"
        log_event(
            job.pk,
            message,
            JobEvent.Level.WARNING,
            error_code=result.follow_up.error_code,
        )


def request_follow_up(job: Job, table: Table, command: Command) -> Job:
    """Return a queued job for the command: an equal one that waits already, or a new one.

    Raises:
        ReadOnlyError, RequestError, PathOutsideRootError: see `request_job`.
    """
    waiting = Job.objects.filter(
        table=table,
        kind=command.kind,
        parameters=command.parameters(),
        state=Job.State.QUEUED,
        dry_run=False,
    ).first()
    if waiting is not None:
        log_event(job.pk, f"Job {waiting.pk} joins small files: it waits already")
        return waiting
    made = request_job(
        table=table,
        kind=command.kind,
        parameters=command.parameters(),
        requested_by=None,
        reason="Auto compaction: the write left many small files.",
        caused_by=job,
    )
    log_event(job.pk, f"Job {made.pk} joins small files", follow_up=str(made.pk))
    return made
