"""Keeping a lease alive beside the work, and hearing that the work is no longer wanted."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import DatabaseError, connections

from engine.errors import OperationCancelledError
from lakeui.jobs import leases
from lakeui.jobs.errors import LeaseLostError

logger = logging.getLogger(__name__)


class Heartbeat:
    """Renews a lease in a thread of its own while the `with` block runs.

    `interrupt` is called once, in that thread, when the job was cancelled or its lease was lost:
    the work will not stop by itself while it waits for Spark.
    """

    def __init__(self, lease: leases.Lease, interrupt: Callable[[], None]) -> None:
        self._lease = lease
        self._interrupt = interrupt
        self._cancelled = threading.Event()
        self._lost = threading.Event()
        self._stopped = threading.Event()
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

    def _run(self) -> None:
        try:
            while not self._stopped.wait(settings.JOB_HEARTBEAT_SECONDS):
                self._beat()
                if self._lost.is_set():
                    return
        finally:
            connections.close_all()

    def _beat(self) -> None:
        try:
            cancelled = leases.renew(self._lease)
        except LeaseLostError:
            self._lost.set()
            self._interrupt()
            return
        except DatabaseError:  # it may come back before the lease ends
            logger.warning("The lease of job %s could not be renewed", self._lease.job_id)
            return
        if cancelled and not self._cancelled.is_set():
            self._cancelled.set()
            self._interrupt()
