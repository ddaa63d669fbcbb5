"""Measure with the store how much of a table VACUUM can delete now.

VACUUM goes by the age that the store gives a file, which the log does not know: a table that was
copied yesterday has old removals in its log, and young files.
"""

from datetime import timedelta
from functools import partial

from django.utils import timezone

from engine.commands.model import Vacuum
from engine.errors import EngineError
from engine.operations.execution import Execution
from engine.operations.options import RunOptions
from engine.operations.vacuum import vacuum
from lakeui.catalog.health import may_vacuum_be_due
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from workers.job_tables import oldest_other_start_ms, open_table

PAUSE = timedelta(hours=1)
"""Between two measurements of a table, unless a VACUUM ended meanwhile."""


def measure_vacuum(table: Table) -> None:
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
    options = RunOptions(
        dry_run=True, running_since=partial(oldest_other_start_ms, Job(table=table))
    )
    try:
        plan = vacuum(Vacuum(), Execution(open_table(table.uri), options=options)).plan
    except EngineError:  # the sync says what is wrong
        return
    if plan is not None:
        sums = {"vacuum_file_count": plan.file_count, "vacuum_bytes": plan.size_bytes}
        row.update(**sums, vacuum_measured_at=now)
