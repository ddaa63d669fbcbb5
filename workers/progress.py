"""How far a job is: noted by whoever works, written to the rows by the heartbeat."""

from collections.abc import Callable

from engine.clock import Clock, SystemClock
from engine.operations.execution import COMMIT
from engine.spark.jobs import Progress
from workers.stages import Stages


class LatestProgress:
    """The `progress` callback of `engine.operations.run`: cheap, and safe from any thread.

    `check` raises when the job is no longer wanted; the operation stops with what it raises.
    `landed` has the versions of the job's table that this attempt committed, `running` is how many
    tasks of it ran when Spark was last looked at.
    """

    def __init__(
        self, check: Callable[[], None], attempt: int = 1, clock: Clock | None = None
    ) -> None:
        self._check = check
        self._latest: Progress | None = None
        self.landed: list[int] = []
        self.running = 0
        self.stages = Stages(clock or SystemClock(), attempt)

    def __call__(self, progress: Progress) -> None:
        """Note the progress, that of tasks which run on in a job that is no longer wanted too.

        Raises:
            OperationCancelledError: the job was cancelled, or another worker has it.
        """
        self.running = progress.counts.running if progress.counts else 0
        if progress.counts is None:  # a step that shall not begin
            self._check()
        if progress.stage != COMMIT:  # its transaction tells checks and commit apart
            self.stages.note(progress)
        if not progress.detail:
            self._latest = progress
        self._check()

    def enter(self, stage: str) -> None:
        """Note a step whose end nobody reports; this one never raises."""
        self.stages.enter(stage)
        self._latest = Progress(stage, 0, 0, "")

    def take_fields(self) -> dict[str, str | int]:
        """What the row shall say, once; empty when nothing was noted since."""
        latest, self._latest = self._latest, None
        if latest is None:
            return {}
        return {
            "progress_stage": latest.stage[:100],
            "progress_done": latest.done,
            "progress_total": latest.total,
            "progress_unit": latest.unit[:30],
            "progress_running": latest.counts.running if latest.counts else 0,
        }
