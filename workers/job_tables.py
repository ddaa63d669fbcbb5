"""The tables and options of a job's run: other jobs, landed commits, jobs that a write asks for."""

from functools import partial

from django.conf import settings
from django.db.models import Min

from engine.commands.model import Command
from engine.errors import TableNotFoundError
from engine.operations.result import OperationResult
from engine.operations.run_options import FollowUpRunner, RunOptions
from engine.spark.jobs import ProgressCallback
from engine.table import DeltaTable
from engine.transaction.log_tail import find_own_commit
from engine.transaction.pending_commit import CommitLimits
from lakeui.catalog.command_tables import names_others
from lakeui.catalog.database_catalog import open_table_store
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.jobs.command_rules import readable_table
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobEvent
from lakeui.jobs.requests import request_job
from lakeui.jobs.writers import active_jobs, active_writers
from workers.observation import JobObserver, OwnCommitFoundError


def open_table(uri: str) -> DeltaTable:
    """Return a handle on a table, which need not exist yet; check its location at this use."""
    place = check_table_uri(uri)
    options = storage_options(place)
    store = open_table_store(place, options)
    limits = CommitLimits(row_budget_s=settings.ROW_CONFLICT_SECONDS)
    roots = settings.TABLE_ROOTS
    return DeltaTable(store, storage_options=options, allowed_roots=roots, limits=limits)


def oldest_other_start_ms(job: Job) -> int | None:
    """Return the earliest start of other jobs on the table: they may have staged files."""
    others = active_jobs(job.table).exclude(pk=job.pk)
    oldest = others.aggregate(oldest=Min("started_at"))["oldest"]
    return None if oldest is None else int(oldest.timestamp() * 1000)


def other_writers(job: Job) -> list[str]:
    """List the jobs that write to the table, for a dry run's readers."""
    others = active_writers(job.table).exclude(pk=job.pk).order_by("created_at")
    return [_describe_job(other, job.table) for other in others[:20]]


def _describe_job(job: Job, table: Table) -> str:
    """Describe a job, without its statement if that names tables hidden from some people."""
    return f"{job.kind} of {table.name}" if names_others(job) else job.statement


def stop_if_committed(job: Job, table: DeltaTable) -> None:
    """Stop if an earlier attempt landed; its command need not fit the table afterwards.

    Raises:
        OwnCommitFoundError: it landed.
        CommitOutcomeUnknownError: it can no longer be determined.
    """
    if job.base_version is None:
        _stop_if_mirrored(job, table)
        return
    try:
        newest = table.version()
    except TableNotFoundError:
        return
    own = find_own_commit(table.store, str(job.txn_id), job.base_version, newest)
    if own is not None:
        raise OwnCommitFoundError(own)


def _stop_if_mirrored(job: Job, table: DeltaTable) -> None:
    """Stop if the mirror has the job's commit, which a restored database may not know."""
    txn_id = str(job.txn_id)
    mirrored = Commit.objects.filter(table=job.table, txn_id=txn_id)
    for version in mirrored.values_list("version", flat=True):
        own = find_own_commit(table.store, txn_id, version - 1, version)
        if own is not None:
            raise OwnCommitFoundError(own)


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
        open_changed=lambda name: open_table(readable_table(name, person, field="steps").uri),
        dry_run=job.dry_run,
        user_name=person.get_username() if person else None,
        writers_elsewhere=other_writers(job) if job.dry_run else None,
        in_process_bytes=settings.IN_PROCESS_BYTES,
        count_bytes=settings.DRY_RUN_COUNT_BYTES,
        then=asks_for_follow_ups(asker, job.table),
    )
