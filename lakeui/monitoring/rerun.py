"""The outlook of running an ended job again, before it is requested."""

from dataclasses import dataclass

from engine.commands.model import Create
from engine.errors import EngineError
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.models import Job
from lakeui.jobs.row_impact import asks_name, row_impact
from lakeui.monitoring.outlook import JobForecast, forecast_of


@dataclass(frozen=True, slots=True)
class JobRerun:
    """`is_retry`: the job did not succeed. A dry run has no forecast: it commits nothing."""

    is_retry: bool
    asks_name: bool
    row_impact: tuple[str, ...]
    forecast: JobForecast | None


def rerun_of(job: Job) -> JobRerun | None:
    """Return the rerun; None if a job runs, created its table, or its command no longer parses."""
    is_retry = job.state != Job.State.SUCCEEDED
    if job.is_active or (job.kind == Create.kind and not is_retry):
        return None
    try:
        command = command_of(job)
    except EngineError:
        return None
    return JobRerun(
        is_retry=is_retry,
        asks_name=asks_name(command) and not job.dry_run,
        row_impact=() if job.dry_run else tuple(row_impact(job.table, command)),
        forecast=None if job.dry_run else forecast_of(job.table, job.kind, job.parameters),
    )
