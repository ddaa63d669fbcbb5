"""How far a job is: written to its row now and then, and the place where a cancellation is heard."""

from engine.clock import Clock, SystemClock
from engine.operations.progress import Progress
from lakeui.jobs.leases import Lease, record
from workers.heartbeat import Heartbeat

_BETWEEN_WRITES_S = 0.5


class ProgressReporter:
    """The `progress` callback of `engine.operations.run`."""

    def __init__(self, lease: Lease, heartbeat: Heartbeat, clock: Clock | None = None) -> None:
        self._lease = lease
        self._heartbeat = heartbeat
        self._clock = clock or SystemClock()
        self._stage = ""
        self._written_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        """Note the progress.

        Raises:
            OperationCancelledError: the job was cancelled.
            LeaseLostError: another worker has it.
        """
        self._heartbeat.check()
        now = self._clock.monotonic_s()
        finished = progress.total > 0 and progress.done >= progress.total
        soon = now - self._written_at < _BETWEEN_WRITES_S
        if soon and progress.stage == self._stage and not finished:
            return
        self._stage, self._written_at = progress.stage, now
        record(
            self._lease,
            progress_stage=progress.stage[:100],
            progress_done=progress.done,
            progress_total=progress.total,
            progress_unit=progress.unit[:30],
        )
