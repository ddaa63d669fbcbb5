"""Tasks that keep the mirror close to the log, discover tables, and measure what VACUUM can delete.

VACUUM goes by the age that the store gives a file, which the log does not know: a table that was
copied yesterday has old removals in its log, and young files. So the store is asked.
"""

import logging
from datetime import timedelta
from functools import partial

from django.db.models import QuerySet
from django.utils import timezone

from engine.clock import Clock, SystemClock
from engine.commands.model import Vacuum
from engine.errors import EngineError
from engine.operations.execution import Execution
from engine.operations.maintenance.vacuum import vacuum
from engine.operations.run_options import RunOptions
from engine.spark.jobs import ProgressCallback
from lakeui.catalog.discovery import search, wake
from lakeui.catalog.health import may_vacuum_be_due
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.catalog.syncs import SyncProgress, claim_sync, end_sync, next_sync_at
from lakeui.celery import app
from lakeui.conflicts.erasures import look_at_order
from lakeui.jobs.models import Job
from lakeui.jobs.turns import take_turns
from lakeui.jobs.writers import active_jobs
from lakeui.task_names import DISCOVER_TABLES, LIGHT_QUEUE, LOOK_AT_ORDER, MIRROR_ALL, MIRROR_TABLE
from workers.job_tables import oldest_other_start_ms, open_table

logger = logging.getLogger(__name__)

PAUSE = timedelta(hours=1)
"""Between two measurements of a table, failed ones too, unless a VACUUM ended meanwhile."""
SECONDS = 60
"""A measurement is given up after this time: the worker has other tables to sync."""

_STALE_S = 60


@app.task(name=MIRROR_TABLE)
def mirror_table(table_id: int) -> None:
    """Mirror the missing versions of one table's log."""
    table = Table.objects.filter(pk=table_id).first()
    if table is not None and claim_sync(table):
        refresh_table(table, SyncProgress(table))
        if table.mirror_tried_at is not None:  # else the database was unreachable: try again
            end_sync(table)
        measure_vacuum(table)


@app.task(name=MIRROR_ALL)
@take_turns(MIRROR_ALL, seconds=60)
def mirror_all() -> None:
    """Request a sync of every table that is due; a request that waits too long is dropped."""
    for table_id in tables_to_sync():
        app.send_task(MIRROR_TABLE, [table_id], queue=LIGHT_QUEUE, expires=_STALE_S)


@app.task(name=DISCOVER_TABLES)
def discover_tables(discovery_id: int) -> None:
    """Search for tables for a while; another worker continues an unfinished search."""
    if search(discovery_id):
        wake(discovery_id)


@app.task(name=LOOK_AT_ORDER)
@take_turns(LOOK_AT_ORDER, seconds=120)
def look_for_erasures() -> None:
    """Record the rows missed by an erasure, in tables with new versions."""
    look_at_order()


def tables_to_sync() -> list[int]:
    """Return the tables to sync now, by number: one that cannot be read waits longer each time."""
    columns = ("pk", "mirror_error_code", "mirror_tried_at", "mirror_tries")
    return [table.pk for table in tables_with_a_log().only(*columns) if not next_sync_at(table)]


def tables_with_a_log() -> QuerySet[Table]:
    """Return all tables but those that a job is still to create: they have no log yet."""
    missing = Table.objects.filter(version=None)
    waited_for = [table.pk for table in missing if active_jobs(table).exists()]
    return Table.objects.exclude(pk__in=waited_for)


class SlowStoreError(Exception):
    """The store took longer to list a table than a measurement may."""


def measure_vacuum(table: Table, clock: Clock | None = None) -> None:
    """Record what a dry run of VACUUM deletes, where by the log it may be much; else nothing."""
    row, now = Table.objects.filter(pk=table.pk, mirror_error_code=""), timezone.now()
    times = row.values_list("vacuum_measured_at", "last_vacuum_at").first()
    last, vacuumed_at = times or (None, None)
    if not row.filter(may_vacuum_be_due()).exists():
        if last is not None:
            row.update(vacuum_file_count=0, vacuum_bytes=0, vacuum_measured_at=None)
        return
    if last and now - PAUSE < last <= now and last >= (vacuumed_at or last):
        return
    sums: dict[str, int] = {}
    try:
        options = RunOptions(
            dry_run=True,
            running_since=partial(oldest_other_start_ms, Job(table=table)),
            progress=_limit_time(clock or SystemClock()),
        )
        plan = vacuum(Vacuum(), Execution(open_table(table.uri), options=options)).plan
        if plan is not None:
            sums = {"vacuum_file_count": plan.file_count, "vacuum_bytes": plan.size_bytes}
    except EngineError:  # the sync says what is wrong
        pass
    except Exception:  # a sync must not fail for it
        logger.exception("What VACUUM can delete of %s could not be measured", table.name)
    row.update(**sums, vacuum_measured_at=now)


def _limit_time(clock: Clock) -> ProgressCallback:
    until_s = clock.monotonic_s() + SECONDS

    def check(_progress: object) -> None:
        if clock.monotonic_s() > until_s:
            raise SlowStoreError

    return check
