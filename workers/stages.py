"""The steps of an attempt: their durations, results, and Spark's counts."""

import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.clock import Clock, utc_from_ms
from engine.spark.jobs import Progress
from engine.spark.task_counts import StageList, TaskCounts, TaskTimes
from lakeui.jobs.spark_stages import SparkStage, longest

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
