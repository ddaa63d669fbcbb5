"""Jobs that a table asks for after a write: the system's, since whoever set its property did."""

from engine.commands.model import Command
from lakeui.catalog.models import Table
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job


def request_follow_up(job: Job, table: Table, command: Command) -> Job:
    """The queued job that does it: the one that waits for the same already, or a new one.

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
