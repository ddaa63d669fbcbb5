"""The steps of an attempt in the database, and lines of the job's log where one ends."""

import threading
from uuid import UUID

from engine.clock import Clock
from lakeui.jobs.events import log_event
from lakeui.jobs.models import JobAttempt, JobEvent, JobStage
from workers.stages import Stage, Stages

_SLOW_MS = 5_000
_SLOW_TIMES = 5
_MAX_PLACES = 40  # a step beyond is not worth a row of its own


class StageRows:
    """Writes what changed. The rows are of this attempt alone: no fence is needed."""

    def __init__(self, job_id: UUID, stages: Stages, clock: Clock) -> None:
        self._job_id, self._stages, self._clock = job_id, stages, clock
        self._attempts: dict[int, int] = {}
        self._told: set[tuple[int, int]] = set()
        self._writing = threading.Lock()

    def write(self) -> None:
        """Bring the rows up to date."""
        with self._writing:
            changed = self._stages.take_changed()
            for stage in changed:
                if stage.place < _MAX_PLACES:
                    self._write(stage)
            for number in {stage.attempt for stage in changed}:
                self._write_cost(number)

    def _write(self, stage: Stage) -> None:
        row = self._attempt(stage.attempt)
        if row is None:
            return
        fields = stage.fields(self._clock.now_ms())
        JobStage.objects.update_or_create(attempt_id=row, place=stage.place, defaults=fields)
        if stage.ended_ms is not None and (stage.attempt, stage.place) not in self._told:
            self._told.add((stage.attempt, stage.place))
            self._tell(stage)

    def _tell(self, stage: Stage) -> None:
        """A step that took Spark or found something; a task that kept the others waiting."""
        counts, times = stage.counts, stage.times
        if counts.total or stage.found:
            took = f"{stage.took_ms(self._clock.now_ms()) / 1000:,.1f} s"
            tasks = (
                f"{counts.done:,} {'task' if counts.done == 1 else 'tasks'}" if counts.total else ""
            )
            said = ", ".join(part for part in (stage.found, tasks, took) if part)
            log_event(self._job_id, f"{stage.name.capitalize()}: {said}")
        if times and times.slowest_ms >= max(_SLOW_MS, _SLOW_TIMES * times.median_ms):
            log_event(
                self._job_id,
                f"Task {times.slowest_task} took {times.slowest_ms / 1000:,.1f} s, "
                f"{times.slowest_ms / max(times.median_ms, 1):,.1f} times the median",
                JobEvent.Level.WARNING,
            )

    def _write_cost(self, attempt: int) -> None:
        cost, row = self._stages.cost_of(attempt), self._attempt(attempt)
        if row is None or not cost.total:
            return
        JobAttempt.objects.filter(pk=row).update(
            core_ms=cost.core_ms,
            bytes_read=cost.bytes_read or None,
            bytes_shuffled=cost.bytes_shuffled,
        )

    def _attempt(self, number: int) -> int | None:
        if number not in self._attempts:
            attempts = JobAttempt.objects.filter(job_id=self._job_id, number=number)
            key = attempts.values_list("pk", flat=True).first()
            if key is None:
                return None
            self._attempts[number] = key
        return self._attempts[number]
