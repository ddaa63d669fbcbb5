"""The heartbeat of a job: renews its lease during the work, and detects its cancellation.

The worker notes the progress and the steps of an attempt, with Spark's counts; the heartbeat writes
them to the rows, and a line of the log at the end of each step.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Self
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections

from engine.clock import Clock, SystemClock, utc_from_ms
from engine.errors import OperationCancelledError
from engine.operations.execution import COMMIT
from engine.spark.jobs import Progress
from engine.spark.task_counts import StageList, TaskCounts, TaskTimes
from engine.words import count_noun
from lakeui.jobs import leases
from lakeui.jobs.errors import LeaseLostError, TimeLimitError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import JobAttempt, JobEvent, JobStage
from lakeui.jobs.spark_stages import SparkStage, longest
from workers import spark_session

logger = logging.getLogger(__name__)
_TICK_S = 0.5
_SLOW_MS = 5_000
_SLOW_TIMES = 5
_MAX_PLACES = 40  # further steps get no row
_STAGE_KEY = ("attempt", "place")
_STAGE_FIELDS = tuple(
    field.name for field in JobStage._meta.fields if field.name not in ("id", *_STAGE_KEY)
)

START, SYNC = "start", "sync"  # before the operation, and after it
_NAME, _FOUND, _UNIT = 100, 200, 30


@dataclass
class StepProgress:
    """One step. It may recur: its turns are summed, its last result stays."""

    attempt: int
    place: int
    name: str
    started_ms: int
    ended_ms: int | None = None
    found: str = ""
    times: TaskTimes | None = None
    changed: bool = True
    _turn_ms: int = 0
    _took_ms: int = 0
    _before: TaskCounts = field(default_factory=TaskCounts)
    _turn: Progress | None = None
    _spark: dict[int, SparkStage] = field(default_factory=dict)
    _spark_count: int = 0  # in the turns before
    _spark_turn: int = 0

    def begin(self, now_ms: int) -> None:
        """Another turn."""
        self._turn_ms, self.ended_ms, self.changed = now_ms, None, True

    def note(self, progress: Progress) -> None:
        """Record the progress of this turn."""
        self._turn, self.changed = progress, True
        self.times = progress.times or self.times
        if progress.stages is not None:
            self._note_spark(progress.stages)

    def end(self, now_ms: int) -> None:
        """End the turn."""
        self._took_ms += now_ms - self._turn_ms
        self._before = self.counts
        if self._turn is not None and self._turn.counts is not None:
            self._turn = None
        self._spark_count, self._spark_turn = self.spark_count, 0
        self.ended_ms, self.changed = now_ms, True

    @property
    def counts(self) -> TaskCounts:
        """Spark's counts in all turns."""
        turn = self._turn.counts if self._turn else None
        return self._before + turn if turn else self._before

    @property
    def spark_count(self) -> int:
        """How many stages Spark ran in all turns."""
        return self._spark_count + self._spark_turn

    def took_ms(self, now_ms: int) -> int:
        """Return the duration of all turns, the running one included."""
        return self._took_ms + (now_ms - self._turn_ms if self.ended_ms is None else 0)

    def fields(self, now_ms: int) -> dict[str, Any]:
        """Return the fields of its row. Zero counts are null: Spark had no part in it."""
        counts, turn = self.counts, self._turn
        by_spark = counts.total > 0
        return {
            "name": self.name[:_NAME],
            "found": self.found[:_FOUND],
            "started_at": utc_from_ms(self.started_ms),
            "finished_at": None if self.ended_ms is None else utc_from_ms(self.ended_ms),
            "took_ms": self.took_ms(now_ms),
            "unit": "tasks" if by_spark else turn.unit[:_UNIT] if turn else "",
            "done": counts.done if by_spark or turn is None else turn.done,
            "running": counts.running if self.ended_ms is None else 0,
            "total": counts.total if by_spark or turn is None else turn.total,
            "median_ms": self.times.median_ms if self.times else None,
            "slowest_ms": self.times.slowest_ms if self.times else None,
            "slowest_task": self.times.slowest_task if self.times else None,
            "core_ms": counts.core_ms if by_spark else None,
            "bytes_read": counts.bytes_read or None,
            "bytes_shuffled": counts.bytes_shuffled if by_spark else None,
            "spark_stages": [stage.to_row() for stage in self._spark.values()],
            "spark_stage_count": self.spark_count,
        }

    def _note_spark(self, told: StageList) -> None:
        """Keep the longest stages of this turn and earlier ones."""
        self._spark_turn = told.total
        now = {stage.stage_id: SparkStage(**asdict(stage)) for stage in told.stages}
        self._spark = {stage.stage_id: stage for stage in longest((self._spark | now).values())}


class Stages:
    """The steps of a job's attempts; safe for several threads."""

    def __init__(self, clock: Clock, attempt: int) -> None:
        self._clock, self._attempt = clock, attempt
        self._stages: list[StepProgress] = []
        self._open: StepProgress | None = None
        self._lock = threading.Lock()

    def note(self, progress: Progress) -> None:
        """Continue or begin a step; a detail of a known step begins nothing."""
        with self._lock:
            stage = self._find_stage(progress.stage)
            if progress.detail and stage is not None:
                stage.found, stage.changed = progress.detail, True
                return
            self._enter(progress.stage)
            if self._open is not None and (progress.total or progress.counts):
                self._open.note(progress)

    def enter(self, name: str) -> None:
        """Begin a step and end the one before it."""
        with self._lock:
            self._enter(name)

    def close(self) -> None:
        """End the running step."""
        with self._lock:
            self._close()

    def next_attempt(self, number: int) -> None:
        """Assign later steps to another attempt."""
        with self._lock:
            self._close()
            self._attempt = number

    def take_changed(self) -> list[StepProgress]:
        """Return the steps that changed since the last call."""
        with self._lock:
            changed = [stage for stage in self._stages if stage.changed]
            for stage in changed:
                stage.changed = False
            return changed

    def cost_of(self, attempt: int) -> TaskCounts:
        """Return Spark's counts in an attempt."""
        with self._lock:
            return sum((stage.counts for stage in self._iter_attempt(attempt)), TaskCounts())

    def _enter(self, name: str) -> None:
        if self._open is not None and self._open.name == name:
            return
        self._close()
        now = self._clock.now_ms()
        stage = self._find_stage(name)
        if stage is None:
            place = sum(1 for _ in self._iter_attempt(self._attempt))
            stage = StepProgress(self._attempt, place, name, now)
            self._stages.append(stage)
        stage.begin(now)
        self._open = stage

    def _close(self) -> None:
        if self._open is not None:
            self._open.end(self._clock.now_ms())
            self._open = None

    def _find_stage(self, name: str) -> StepProgress | None:
        return next(
            (stage for stage in self._iter_attempt(self._attempt) if stage.name == name), None
        )

    def _iter_attempt(self, attempt: int) -> Iterator[StepProgress]:
        return (stage for stage in self._stages if stage.attempt == attempt)


class StageRows:
    """Writes changed steps. The rows belong to this attempt alone: no fence is needed."""

    def __init__(self, job_id: UUID, stages: Stages, clock: Clock) -> None:
        self._job_id, self._stages, self._clock = job_id, stages, clock
        self._attempts: dict[int, int] = {}
        self._told: set[tuple[int, int]] = set()
        self._writing = threading.Lock()

    def write(self) -> None:
        """Bring the rows up to date."""
        with self._writing:
            changed = self._stages.take_changed()
            self._write([stage for stage in changed if stage.place < _MAX_PLACES])
            for number in {stage.attempt for stage in changed}:
                self._write_cost(number)

    def _write(self, stages: Sequence[StepProgress]) -> None:
        """Insert or update the rows of the steps in one statement; log the steps that ended."""
        now_ms, rows = self._clock.now_ms(), list[JobStage]()
        for stage in stages:
            attempt = self._attempt(stage.attempt)
            if attempt is not None:
                rows.append(JobStage(attempt_id=attempt, place=stage.place, **stage.fields(now_ms)))
        JobStage.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=_STAGE_KEY, update_fields=_STAGE_FIELDS
        )
        for stage in stages:
            key = (stage.attempt, stage.place)
            if (
                stage.ended_ms is not None
                and stage.attempt in self._attempts
                and key not in self._told
            ):
                self._told.add(key)
                self._tell(stage)

    def _tell(self, stage: StepProgress) -> None:
        """Log a step with Spark tasks or a finding, and a task that delayed the others."""
        counts, times = stage.counts, stage.times
        at = None if stage.ended_ms is None else utc_from_ms(stage.ended_ms)
        tell = partial(log_event, self._job_id, at=at, attempt=stage.attempt, step=stage.place)
        if counts.total or stage.found:
            took = _duration(stage.took_ms(self._clock.now_ms()))
            tasks = count_noun(counts.done, "task") if counts.total else ""
            said = ", ".join(part for part in (stage.found, tasks, took) if part)
            tell(f"{stage.name.capitalize()}: {said}")
        if times and times.slowest_ms >= max(_SLOW_MS, _SLOW_TIMES * times.median_ms):
            tell(
                f"Task {times.slowest_task} took {_duration(times.slowest_ms)}, "
                f"{times.slowest_ms / max(times.median_ms, 1):,.1f} times the median",
                level=JobEvent.Level.WARNING,
            )

    def _write_cost(self, attempt: int) -> None:
        cost, row = self._stages.cost_of(attempt), self._attempt(attempt)
        if row is None or not cost.total:
            return
        JobAttempt.objects.filter(pk=row).update(
            core_ms=cost.core_ms,
            bytes_read=cost.bytes_read or None,
            bytes_shuffled=cost.bytes_shuffled,
            spark_application=spark_session.application()[:100],
        )

    def _attempt(self, number: int) -> int | None:
        if number not in self._attempts:
            attempts = JobAttempt.objects.filter(job_id=self._job_id, number=number)
            key = attempts.values_list("pk", flat=True).first()
            if key is None:
                return None
            self._attempts[number] = key
        return self._attempts[number]


@dataclass(frozen=True, slots=True)
class LatestFields:
    """The running step, its start, and the fields for the job's row."""

    stage: str
    since: datetime
    fields: dict[str, str | int]


class LatestProgress:
    """The `progress` callback of `engine.operations.run`: cheap, and safe from any thread.

    `check` raises if the job is to stop; the operation stops with its exception. `landed` has the
    versions of the job's table committed by this attempt, `running` is the last known number of its
    running tasks.
    """

    def __init__(
        self, check: Callable[[], None], attempt: int = 1, clock: Clock | None = None
    ) -> None:
        self._check = check
        self._clock = clock or SystemClock()
        self._latest: tuple[Progress, int] | None = None
        self._stage, self._since_ms = "", 0
        self.landed: list[int] = []
        self.running = 0
        self.stages = Stages(self._clock, attempt)

    def __call__(self, progress: Progress) -> None:
        """Note the progress, also of tasks that still run in a stopped job.

        Raises:
            OperationCancelledError: the job was cancelled, or another worker has it.
        """
        self.running = progress.counts.running if progress.counts else 0
        if progress.counts is None:  # a step must not begin
            self._check()
        if progress.stage != COMMIT:  # its transaction separates checks and commit
            self.stages.note(progress)
        if not progress.detail:
            self._note(progress)
        self._check()

    def enter(self, stage: str) -> None:
        """Note the start of a step without a reported end; never raise."""
        self.stages.enter(stage)
        self._note(Progress(stage, 0, 0, ""))

    def take(self) -> LatestFields | None:
        """Return the new fields for the row, once; None if nothing was noted since."""
        noted, self._latest = self._latest, None
        if noted is None:
            return None
        latest, since_ms = noted
        fields: dict[str, str | int] = {
            "progress_stage": latest.stage[:100],
            "progress_done": latest.done,
            "progress_total": latest.total,
            "progress_unit": latest.unit[:30],
            "progress_running": latest.counts.running if latest.counts else 0,
        }
        return LatestFields(latest.stage, utc_from_ms(since_ms), fields)

    def _note(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self._stage, self._since_ms = progress.stage, self._clock.now_ms()
        self._latest = progress, self._since_ms


class Heartbeat:
    """Renews a lease in a thread of its own while the `with` block runs.

    The same thread writes the job's progress and looks for a cancellation and at the time limit, twice
    a second; so the work itself touches the row only where the state changes.
    """

    def __init__(
        self, lease: leases.Lease, time_limit_s: int | None = None, clock: Clock | None = None
    ) -> None:
        self._lease = lease
        self._time_limit_s = time_limit_s
        self._clock = clock or SystemClock()
        self._began_at = self._renewed_at = self._clock.monotonic_s()
        self._stage = ""
        self._timed_out = threading.Event()
        self._deaf_since: float | None = None
        self._cancelled = threading.Event()
        self._lost = threading.Event()
        self._stopped = threading.Event()
        self.progress = LatestProgress(self.check, lease.attempt, self._clock)
        self._rows = StageRows(lease.job_id, self.progress.stages, self._clock)
        self._thread = threading.Thread(
            target=self._run, name=f"heartbeat {lease.job_id}", daemon=True
        )

    @property
    def cancelled(self) -> bool:
        """Whether someone requested to cancel the job."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Stop the work here if it is no longer wanted.

        Raises:
            OperationCancelledError: the job was cancelled.
            TimeLimitError: it ran longer than it may.
            LeaseLostError: another worker has it.
        """
        if self._lost.is_set():
            raise LeaseLostError
        if self._cancelled.is_set():
            msg = "The job was cancelled before its commit."
            raise OperationCancelledError(msg, "Nothing was written.")
        if self._time_limit_s is not None and self._timed_out.is_set():
            raise TimeLimitError(self._time_limit_s)

    def __enter__(self) -> Self:
        if self._lease.job.cancel_requested_at is not None:  # known before the work begins
            self._cancelled.set()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def end_stages(self) -> None:
        """Write the ends of the steps before the end of the job."""
        self.progress.stages.close()
        try:
            self._rows.write()
        except DatabaseError:
            logger.warning("The steps of job %s could not be written", self._lease.job_id)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(_TICK_S) and not self._lost.is_set():
                self._tick()
        finally:
            connections.close_all()

    def _tick(self) -> None:
        try:
            self._beat()
        except LeaseLostError:
            self._lost.set()
        except DatabaseError:  # it may come back before the lease ends
            logger.warning("The row of job %s could not be reached", self._lease.job_id)
            close_old_connections()  # a broken connection is useless

    def _beat(self) -> None:
        if latest := self.progress.take():
            self._log_stage(latest)
            leases.record(self._lease, **latest.fields)
        self._rows.write()
        now = self._clock.monotonic_s()
        if now - self._renewed_at >= settings.JOB_HEARTBEAT_SECONDS:
            leases.renew(self._lease)
            self._renewed_at = now
        if leases.is_cancelled(self._lease):
            self._cancelled.set()
        self._look_at_time(now)
        self._end_deaf_tasks(now)

    def _look_at_time(self, now: float) -> None:
        limit = self._time_limit_s
        if limit is None or now - self._began_at < limit or self._timed_out.is_set():
            return
        self._timed_out.set()
        message = f"The time limit of {limit:,} s is over, so the job is stopped"
        log_event(self._lease.job_id, message, JobEvent.Level.WARNING)

    def _end_deaf_tasks(self, now: float) -> None:
        """End tasks that ignore interrupts, as Spark's task reaper does on a cluster."""
        is_wanted = not (self._cancelled.is_set() or self._timed_out.is_set())
        if is_wanted or not self.progress.running:
            self._deaf_since = None
            return
        self._deaf_since = now if self._deaf_since is None else self._deaf_since
        if now - self._deaf_since < settings.SPARK_TASK_KILL_SECONDS:
            return
        self.progress.running = 0
        if spark_session.end_if_local():
            message = "Its tasks ignore the interrupt, so this worker's Spark is stopped with them"
            log_event(self._lease.job_id, message, JobEvent.Level.WARNING)

    def _log_stage(self, latest: LatestFields) -> None:
        if latest.stage != self._stage:
            self._stage = latest.stage
            log_event(self._lease.job_id, latest.stage.capitalize(), at=latest.since)


def _duration(milliseconds: float) -> str:
    """Format a duration for a log line: 2 ms, 1,204.5 s."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.1f} s"
