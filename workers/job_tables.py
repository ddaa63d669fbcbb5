"""Facts about tables for a job's run: opening them, other jobs on them, landed commits."""

from django.conf import settings
from django.db.models import Min

from engine.errors import TableNotFoundError
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.log_tail import find_own_commit
from engine.transaction.pending_commit import CommitLimits
from lakeui.catalog.command_tables import names_others
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.jobs.models import Job
from lakeui.jobs.writers import active_jobs, active_writers
from workers.observation import OwnCommitFoundError


def open_table(uri: str) -> DeltaTable:
    """Return a handle on a table, which need not exist yet; check its location at this use."""
    place = check_table_uri(uri)
    options = storage_options(place)
    store = open_store(place, options)
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
