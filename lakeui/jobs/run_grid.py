"""The grid of scheduled runs: a column for each run, a row for each schedule or step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lakeui.jobs.models import Job, JobAttempt, JobStage, Schedule
from lakeui.jobs.schedules import latest_runs
from lakeui.jobs.timeline import span_ms

MOST = 30
"""Runs of a row, the latest."""


@dataclass(frozen=True, slots=True)
class RunCell:
    """A run, or one of its steps; `share` is its duration in per cent of the longest of its row.

    `took_ms` is None if it has not ended.
    """

    job_id: UUID
    state: str
    created_at: datetime
    took_ms: int | None
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class GridRow:
    """A schedule or a step, with its runs in order; None where a run had no such step.

    `kind` is the statement's. `schedule` is None for a step.
    """

    name: str
    kind: str
    schedule: Schedule | None
    cells: tuple[RunCell | None, ...]


def grid_of_schedules(schedules: Sequence[Schedule], since: datetime) -> list[GridRow]:
    """Return a row for each schedule, the latest run last."""
    runs = latest_runs(schedules, since, MOST)
    return [
        _row(schedule.name, schedule.kind, schedule, map(_cell_of_run, runs.get(schedule.pk, ())))
        for schedule in schedules
    ]


def grid_of_steps(schedule: Schedule, since: datetime) -> list[GridRow]:
    """Return a row for the runs of a schedule and for each step of their last attempts."""
    jobs = latest_runs([schedule], since, MOST).get(schedule.pk, [])
    stages = _load_stages(jobs)
    names = dict.fromkeys(name for stages_by_name in stages.values() for name in stages_by_name)
    steps = (
        _row(
            name,
            schedule.kind,
            None,
            [_cell_of_step(job, stages[job.pk].get(name)) for job in jobs],
        )
        for name in names
    )
    first = _row(schedule.name, schedule.kind, schedule, map(_cell_of_run, jobs))
    return [first, *steps]


def _load_stages(jobs: Iterable[Job]) -> Mapping[UUID, dict[str, JobStage]]:
    """Return the steps of each run's last attempt by name, in two queries."""
    stages: dict[UUID, dict[str, JobStage]] = {job.pk: {} for job in jobs}
    attempts = JobAttempt.objects.filter(job__in=stages).order_by("number")
    last = {job: attempt for attempt, job in attempts.values_list("pk", "job_id")}
    job_of = {attempt: job for job, attempt in last.items()}
    rows = JobStage.objects.filter(attempt__in=job_of).defer("spark_stages")
    for stage in rows.order_by("attempt", "place"):
        stages[job_of[stage.attempt_id]][stage.name] = stage
    return stages


def _cell_of_run(job: Job) -> RunCell:
    ended = job.started_at is not None and job.finished_at is not None
    took_ms = span_ms(job.started_at, job.finished_at) if ended else None  # type: ignore[arg-type]
    return RunCell(job.pk, job.state, job.created_at, took_ms)


def _cell_of_step(job: Job, stage: JobStage | None) -> RunCell | None:
    """Return a step; an unfinished step has the state of its run."""
    if stage is None:
        return None
    if stage.finished_at is None:
        return RunCell(job.pk, job.state, job.created_at, None)
    return RunCell(job.pk, Job.State.SUCCEEDED, job.created_at, stage.took_ms)


def _row(
    name: str, kind: str, schedule: Schedule | None, cells: Iterable[RunCell | None]
) -> GridRow:
    """Return a row whose longest run has the longest bar."""
    drawn = list(cells)
    longest = max((cell.took_ms or 0 for cell in drawn if cell), default=0) or 1
    shares = (
        cell and RunCell(cell.job_id, cell.state, cell.created_at, cell.took_ms,
                         100 * (cell.took_ms or 0) / longest)
        for cell in drawn
    )  # fmt: skip
    return GridRow(name, kind, schedule, tuple(shares))
