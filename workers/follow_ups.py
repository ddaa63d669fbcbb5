"""What a table asks for after a write becomes a job of its own: the write does not wait for it."""

from engine.commands.model import Command
from engine.operations.options import FollowUpRunner
from engine.operations.result import OperationResult
from lakeui.catalog.models import Table
from lakeui.jobs.events import log_event
from lakeui.jobs.follow_ups import request_follow_up
from lakeui.jobs.models import Job, JobEvent


def asks_for_follow_ups(job: Job, table: Table) -> FollowUpRunner:
    """Has the follow-ups of a job's writes to a table queued."""

    def ask(command: Command) -> None:
        request_follow_up(job, table, command)

    return ask


def note_unasked(job: Job, result: OperationResult) -> None:
    """Tell the job's log where a follow-up could not be asked for: the write stands."""
    if result.follow_up is not None and result.follow_up.error:
        message = f"Small files stay as they are: {result.follow_up.error}"
        log_event(
            job.pk,
            message,
            JobEvent.Level.WARNING,
            error_code=result.follow_up.error_code,
        )
