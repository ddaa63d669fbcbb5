"""Keeping a lease alive beside the work, and hearing that the work is no longer wanted."""

import logging
import threading
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import DatabaseError, connections

from engine.clock import Clock, SystemClock
from engine.errors import OperationCancelledError
from lakeui.jobs import leases
from lakeui.jobs.errors import LeaseLostError
from lakeui.jobs.events import log_event
from workers.progress import LatestProgress
from workers.stage_rows import StageRows

logger = logging.getLogger(__name__)

_TICK_S = 0.5


class Heartbeat:
    """Renews a lease in a thread of its own while the `with` block runs.

    The same thread writes the job's progress and looks for a cancellation, twice a second; so the
    work itself touches the row only where the state changes.
    """

    def __init__(self, lease: leases.Lease, clock: Clock | None = None) -> None:
        self._lease = lease
        self._clock = clock or SystemClock()
        self._renewed_at = self._clock.monotonic_s()
        self._stage = ""
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
        """Someone asked to cancel the job."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Stop the work here if it is no longer wanted.

        Raises:
            OperationCancelledError: the job was cancelled.
            LeaseLostError: another worker has it.
        """
        if self._lost.is_set():
            raise LeaseLostError
        if self._cancelled.is_set():
            msg = "The job was cancelled before its commit."
            raise OperationCancelledError(msg, "Nothing was written.")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def end_stages(self) -> None:
        """Write down how the steps ended, before the job says that it has."""
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

    def _beat(self) -> None:
        if fields := self.progress.take_fields():
            self._log_stage(str(fields["progress_stage"]))
            leases.record(self._lease, **fields)
        self._rows.write()
        now = self._clock.monotonic_s()
        if now - self._renewed_at >= settings.JOB_HEARTBEAT_SECONDS:
            leases.renew(self._lease)
            self._renewed_at = now
        if leases.is_cancelled(self._lease):
            self._cancelled.set()

    def _log_stage(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            log_event(self._lease.job_id, stage.capitalize())
