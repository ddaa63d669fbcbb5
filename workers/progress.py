"""How far a job is: noted by whoever works, written to the row by the heartbeat."""

from collections.abc import Callable

from engine.spark.jobs import Progress


class LatestProgress:
    """The `progress` callback of `engine.operations.run`: cheap, and safe from any thread.

    `check` raises when the job is no longer wanted; the operation stops with what it raises.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._latest: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Note the progress.

        Raises:
            OperationCancelledError: the job was cancelled, or another worker has it.
        """
        self._check()
        self._latest = progress

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
        }
