"""The cost of a job: the attempt that counts, and wasted ones."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.spans import span_ms

_USEFUL = frozenset(
    {
        JobAttempt.Outcome.RUNNING,
        JobAttempt.Outcome.COMMITTED,
        JobAttempt.Outcome.NOTHING_TO_DO,
    }
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Sums over attempts. None: no attempt recorded it."""

    attempts: int = 0
    wall_ms: int | None = None
    core_ms: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    bytes_shuffled: int | None = None
    files_written: int | None = None


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of a job; `useful` is the running or landed attempt's."""

    useful: Cost = Cost()
    wasted: Cost = Cost()


def cost_of(
    attempts: Iterable[JobAttempt], now: datetime | None = None, *, dry_run: bool = False
) -> RunCost:
    """Return the cost of all attempts of one job. A dry run wastes nothing, however it ends."""
    now = now or timezone.now()
    by_use: dict[bool, list[Cost]] = {True: [], False: []}
    for attempt in attempts:
        by_use[dry_run or attempt.outcome in _USEFUL].append(_cost_of_attempt(attempt, now))
    return RunCost(_sum(by_use[True]), _sum(by_use[False]))


def costs_of(jobs: Iterable[Job]) -> dict[UUID, RunCost]:
    """Return the cost of each job of a page, by its id: one query."""
    attempts: defaultdict[UUID, list[JobAttempt]] = defaultdict(list)
    rehearsals = {job.pk: job.dry_run for job in jobs}
    for attempt in JobAttempt.objects.filter(job__in=rehearsals).defer("message"):
        attempts[attempt.job_id].append(attempt)
    now = timezone.now()
    return {key: cost_of(rows, now, dry_run=rehearsals[key]) for key, rows in attempts.items()}


def _cost_of_attempt(attempt: JobAttempt, now: datetime) -> Cost:
    return Cost(
        attempts=1,
        wall_ms=span_ms(attempt.started_at, attempt.finished_at or now),
        core_ms=attempt.core_ms,
        bytes_read=attempt.bytes_read,
        bytes_written=attempt.bytes_written,
        bytes_shuffled=attempt.bytes_shuffled,
        files_written=attempt.files_written,
    )


def _sum(costs: list[Cost]) -> Cost:
    def total(name: str) -> int | None:
        values = [value for cost in costs if (value := getattr(cost, name)) is not None]
        return sum(values) if values else None

    names = [field.name for field in fields(Cost) if field.name != "attempts"]
    return Cost(attempts=len(costs), **{name: total(name) for name in names})
