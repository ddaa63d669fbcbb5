"""Options for a job's command: its person, its transaction id, other writers.

A table's requests after a write become jobs of their own: the write does not wait for them.
"""

from functools import partial

from django.conf import settings

from engine.commands.model import Command
from engine.operations.options import FollowUpRunner, RunOptions
from engine.operations.result import OperationResult
from engine.spark.jobs import ProgressCallback
from lakeui.catalog.models import Table
from lakeui.jobs.command_rules import readable_table
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobEvent
from lakeui.jobs.requests import request_job
from workers.job_tables import oldest_other_start_ms, open_table, other_writers
from workers.observation import JobObserver


def asks_for_follow_ups(job: Job, table: Table) -> FollowUpRunner:
    """Has the follow-ups of a job's writes to a table queued."""

    def ask(command: Command) -> None:
        request_follow_up(job, table, command)

    return ask


def note_unasked(job: Job, result: OperationResult) -> None:
    """Log that a follow-up could not be requested: the write stands."""
    if result.follow_up is not None and result.follow_up.error:
        message = f"Small files were not compacted: {result.follow_up.error}"
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
        log_event(job.pk, f"Job {waiting.pk} already waits to compact small files")
        return waiting
    made = request_job(
        table=table,
        kind=command.kind,
        parameters=command.parameters(),
        requested_by=None,
        reason="Auto compaction, because the write left many small files.",
        caused_by=job,
    )
    log_event(job.pk, f"Job {made.pk} compacts small files", follow_up=str(made.pk))
    return made


def options_of(
    job: Job, asker: Job, observer: JobObserver, progress: ProgressCallback
) -> RunOptions:
    """Return the options of a job's run; its source tables are opened with its person's rights.

    `asker` owns the follow-ups: the job itself, or the job that has the step of a script.
    """
    person = job.requested_by
    return RunOptions(
        txn_id=str(job.txn_id),
        retries=job.max_retries,
        observer=observer,
        progress=progress,
        running_since=partial(oldest_other_start_ms, job),
        resolve=lambda name: open_table(readable_table(name, person).uri),
        dry_run=job.dry_run,
        user_name=person.get_username() if person else None,
        writers_elsewhere=other_writers(job) if job.dry_run else None,
        in_process_bytes=settings.IN_PROCESS_BYTES,
        count_bytes=settings.DRY_RUN_COUNT_BYTES,
        then=asks_for_follow_ups(asker, job.table),
    )
