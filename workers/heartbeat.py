"""Keeping a lease alive beside the work, and hearing that the work is no longer wanted."""

import logging
import threading
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections

from engine.clock import Clock, SystemClock
from engine.errors import OperationCancelledError
from lakeui.jobs import leases
from lakeui.jobs.errors import LeaseLostError, TimeLimitError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import JobEvent
from workers import spark_session
from workers.progress import LatestProgress
from workers.stage_rows import StageRows

logger = logging.getLogger(__name__)

_TICK_S = 0.5


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
        """Someone asked to cancel the job."""
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
        if leases.is_cancelled(self._lease):  # known before the work begins
            self._cancelled.set()
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
            close_old_connections()  # one that broke is of no use any more

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
        self._look_at_time(now)
        self._end_deaf_tasks(now)

    def _look_at_time(self, now: float) -> None:
        limit = self._time_limit_s
        if limit is None or now - self._began_at < limit or self._timed_out.is_set():
            return
        self._timed_out.set()
        message = f"The time limit of {limit:,} s is over: the job is stopped"
        log_event(self._lease.job_id, message, JobEvent.Level.WARNING)

    def _end_deaf_tasks(self, now: float) -> None:
        """Spark's task reaper ends the executor of tasks that heed no interrupt; here it may be Spark."""
        is_wanted = not (self._cancelled.is_set() or self._timed_out.is_set())
        if is_wanted or not self.progress.running:
            self._deaf_since = None
            return
        self._deaf_since = now if self._deaf_since is None else self._deaf_since
        if now - self._deaf_since < settings.SPARK_TASK_KILL_SECONDS:
            return
        self.progress.running = 0
        if spark_session.end_if_local():
            message = "Its tasks heed no interrupt: this worker's Spark is ended with them"
            log_event(self._lease.job_id, message, JobEvent.Level.WARNING)

    def _log_stage(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            log_event(self._lease.job_id, stage.capitalize())
