"""The time of a job: its queue, attempts and their steps, and its cost.

The parts add up to the whole. If the clocks of two hosts disagree they add up to more, and
`excess_ms` is the difference. The cost tells the attempt that counts from wasted ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.utils import timezone

from lakeui.jobs.models import Job, JobAttempt, JobStage

_EPOCH, _A_MS = datetime.fromtimestamp(0, UTC), timedelta(milliseconds=1)

HOLDING, WAITING = "held for another job", "waiting for another job"
"""Steps of a rehearsed conflict: of the job to be aborted, and of the other one."""

_USEFUL = frozenset(
    {
        JobAttempt.Outcome.RUNNING,
        JobAttempt.Outcome.COMMITTED,
        JobAttempt.Outcome.NOTHING_TO_DO,
    }
)


class PartKind(StrEnum):
    """The kind of a part of a job's time."""

    QUEUE = "queue"  # until a worker took it
    SESSION = "session"  # of the queue: its worker was starting Spark
    EARLIER = "earlier"  # attempts before the listed ones
    TAKE = "take"  # from the start of an attempt to its first step
    STEP = "step"
    BETWEEN = "between"  # of an attempt, in none of its steps
    END = "end"  # from the last step to the end of the attempt
    UNRECORDED = "unrecorded"  # an attempt, or work, without recorded steps
    WAIT = "wait"  # between an aborted attempt and the next
    REQUEUE = "requeue"  # between a lost attempt and the next


@dataclass(frozen=True, slots=True)
class Part:
    """A part; `took_ms` may be less than its span, because a step may pause. `is_open`: it continues."""

    kind: PartKind
    started_at: datetime
    ended_at: datetime
    took_ms: int
    attempt: int | None = None
    stage: JobStage | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """The span of an attempt; `is_ended` is false if its end is unrecorded, and while it runs."""

    attempt: JobAttempt
    started_at: datetime
    ended_at: datetime
    is_ended: bool
    parts: tuple[Part, ...]

    @property
    def took_ms(self) -> int:
        return span_ms(self.started_at, self.ended_at)


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """From the request to the end, or until now. `parts` are in order, of attempts too."""

    started_at: datetime
    ended_at: datetime
    parts: tuple[Part, ...]
    attempts: tuple[AttemptSpan, ...]

    @property
    def total_ms(self) -> int:
        return span_ms(self.started_at, self.ended_at)

    @property
    def excess_ms(self) -> int:
        """By how much the parts exceed the whole, because two hosts' clocks disagree."""
        return max(sum(part.took_ms for part in self.parts) - self.total_ms, 0)


def timeline_of(
    job: Job,
    attempts: Iterable[JobAttempt],
    stages: Mapping[int, Sequence[JobStage]],
    now: datetime | None = None,
) -> JobTimeline:
    """Return the timeline of the given attempts, with their steps by the attempt's key."""
    now = now or timezone.now()
    tried = sorted(attempts, key=lambda attempt: attempt.number)
    end = max(job.finished_at or (now if job.is_active else _last_of(job, tried)), job.created_at)
    spans = tuple(_spans(job, tried, stages, end))
    return JobTimeline(job.created_at, end, tuple(_parts(job, spans, end)), spans)


def _last_of(job: Job, attempts: Sequence[JobAttempt]) -> datetime:
    """Return the last known time of a job whose end was not recorded."""
    moments = [job.started_at, *(attempt.finished_at or attempt.started_at for attempt in attempts)]
    return max((moment for moment in moments if moment is not None), default=job.created_at)


def _parts(job: Job, spans: Sequence[AttemptSpan], end: datetime) -> Iterator[Part]:
    begun = job.started_at or (spans[0].started_at if spans else None)
    if begun is None:
        yield Part(
            PartKind.QUEUE, job.created_at, end, span_ms(job.created_at, end), is_open=job.is_active
        )
        return
    begun = max(begun, job.created_at)
    yield from _queue(job.created_at, begun, spans)
    if not spans:
        yield Part(PartKind.UNRECORDED, begun, end, span_ms(begun, end), is_open=job.is_active)
        return
    reached = begun
    for place, span in enumerate(spans):
        if span.started_at > reached:
            kind = _pause(spans[place - 1].attempt) if place else _kind_before(span)
            yield Part(kind, reached, span.started_at, span_ms(reached, span.started_at))
        yield from span.parts
        reached = max(reached, span.ended_at)
    if reached < end:
        kind = _pause(spans[-1].attempt) if job.is_active else PartKind.END
        yield Part(kind, reached, end, span_ms(reached, end), is_open=job.is_active)


def _queue(asked: datetime, begun: datetime, spans: Sequence[AttemptSpan]) -> Iterator[Part]:
    """Yield the time until a worker took the job, and the part in which it started Spark."""
    first = spans[0].attempt if spans else None
    if first and first.number == 1 and first.session_from and first.session_until:
        start = min(max(first.session_from, asked), begun)
        ready = min(max(first.session_until, start), begun)
        if start > asked:
            yield Part(PartKind.QUEUE, asked, start, span_ms(asked, start))
        yield Part(PartKind.SESSION, start, ready, span_ms(start, ready))
        asked = ready
    yield Part(PartKind.QUEUE, asked, begun, span_ms(asked, begun))


def _kind_before(first: AttemptSpan) -> PartKind:
    return PartKind.EARLIER if first.attempt.number > 1 else PartKind.TAKE


def _pause(before: JobAttempt) -> PartKind:
    is_lost = before.outcome in (JobAttempt.Outcome.LOST, JobAttempt.Outcome.RUNNING)
    return PartKind.REQUEUE if is_lost else PartKind.WAIT


def _spans(
    job: Job,
    attempts: Sequence[JobAttempt],
    stages: Mapping[int, Sequence[JobStage]],
    end: datetime,
) -> Iterator[AttemptSpan]:
    for place, attempt in enumerate(attempts):
        is_last = place == len(attempts) - 1
        next_start = end if is_last else attempts[place + 1].started_at
        started = max(attempt.started_at, job.created_at)
        ended = max(attempt.finished_at or next_start, started)
        runs = attempt.finished_at is None and is_last and job.is_active
        parts = tuple(
            _iter_attempt_parts(attempt, stages.get(attempt.pk, ()), started, ended, runs=runs)
        )
        yield AttemptSpan(attempt, started, ended, attempt.finished_at is not None, parts)


def _iter_attempt_parts(
    attempt: JobAttempt,
    stages: Sequence[JobStage],
    started: datetime,
    ended: datetime,
    *,
    runs: bool,
) -> Iterator[Part]:
    """Iterate over the steps, and the rests of the attempt before, between and after them."""
    number, whole = attempt.number, span_ms(started, ended)
    if not stages:
        yield Part(PartKind.UNRECORDED, started, ended, whole, number, is_open=runs)
        return
    steps = [_step(number, stage, ended, runs=runs) for stage in stages]
    rest = max(whole - sum(step.took_ms for step in steps), 0)
    first, last = steps[0].started_at, max(step.ended_at for step in steps)
    is_open = any(step.is_open for step in steps)
    before = min(span_ms(started, first), rest)
    after = 0 if is_open else min(span_ms(last, ended), rest - before)
    between = rest - before - after
    if before:
        yield Part(PartKind.TAKE, started, started + timedelta(milliseconds=before), before, number)
    yield from steps
    if between:
        yield Part(PartKind.BETWEEN, first, last, between, number)
    if after:
        yield Part(PartKind.END, ended - timedelta(milliseconds=after), ended, after, number)


def _step(number: int, stage: JobStage, ended: datetime, *, runs: bool) -> Part:
    """Return the part of a step; a running one without Spark lasts until now."""
    took = max(stage.took_ms, 0)
    is_open = stage.finished_at is None and runs
    if is_open:
        took = max(took, span_ms(stage.started_at, ended)) if stage.unit != "tasks" else took
        return Part(PartKind.STEP, stage.started_at, ended, took, number, stage, is_open=True)
    until = stage.finished_at or stage.started_at + timedelta(milliseconds=took)
    return Part(PartKind.STEP, stage.started_at, max(until, stage.started_at), took, number, stage)


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


def span_ms(start: datetime, end: datetime) -> int:
    """Return the whole milliseconds between two times, so that consecutive spans add up."""
    return max((end - _EPOCH) // _A_MS - (start - _EPOCH) // _A_MS, 0)
