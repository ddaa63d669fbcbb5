"""The tables that a job changes, and so the writers of a table: the one place that knows.

A job changes its own table and, for a script, the tables of its steps. Its row holds the latter in
`also_changes`, written with the job and again before its worker stages anything. VACUUM, dry runs,
forecasts, lists of running jobs and unregistering a table ask here.
"""

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from engine.commands.model import Command, Script
from engine.commands.script import step_table
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job, Schedule


def note_changed_tables(asked: Job | Schedule, command: Command) -> None:
    """Record the registered tables that a saved job or schedule changes beside its own."""
    steps = command.steps if isinstance(command, Script) else ()
    names = {step_table(step) for step in steps} - {"", asked.table.name, asked.table.uri}
    if names or isinstance(asked, Schedule):  # a schedule's statement may have changed
        others = Table.objects.filter(Q(name__in=names) | Q(uri__in=names))
        asked.also_changes.set(others.exclude(pk=asked.table_id))


def jobs_changing(tables: Iterable[int]) -> Q:
    """Return the condition for jobs that change, or changed, one of the tables with these ids.

    If no script ever named them, an index has the jobs of a table in order.
    """
    scripts = Job.also_changes.through.objects.filter(table__in=tables)
    own = Q(table__in=tables)
    return own | Q(pk__in=scripts.values("job")) if scripts.exists() else own


def active_jobs(table: Table) -> QuerySet[Job]:
    """Return the jobs on a table that have not ended, including waiting jobs and dry runs."""
    scripts = Job.also_changes.through.objects.filter(table=table)
    changing = Q(table=table) | Q(pk__in=scripts.values("job"))
    unended = Job.objects.filter(finished_at=None, state__in=Job.ACTIVE)  # an index has these few
    return unended.filter(changing)


def active_writers(table: Table) -> QuerySet[Job]:
    """Return the running jobs that may commit to a table."""
    return active_jobs(table).filter(state__in=Job.AT_WORK, dry_run=False)


def schedules_changing(table: Table) -> QuerySet[Schedule]:
    """Return the schedules whose jobs change a table."""
    scripts = Schedule.also_changes.through.objects.filter(table=table)
    return Schedule.objects.filter(Q(table=table) | Q(pk__in=scripts.values("schedule")))
