"""A worker's report every few seconds, so that pages need not query the worker.

Loaded with the tasks: the module of the Celery app comes before Django is set up.
"""

import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from celery.signals import worker_ready, worker_shutdown
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone

from lakeui.jobs.code_version import code_version
from lakeui.jobs.models import WorkerReport
from workers import spark_session

logger = logging.getLogger(__name__)

_FORGOTTEN_AFTER = timedelta(days=1)


class Reporter:
    """Writes one row, in a thread of its own; removes it when the worker shuts down.

    A killed worker leaves its row: pages then show since when it is silent.
    """

    def __init__(self, name: str, queue: str, slots: int) -> None:
        self._name, self._queue, self._slots = name[:255], queue[:20], slots
        self._started_at = timezone.now()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker report", daemon=True)

    def start(self) -> None:
        """Start the thread, which reports at once."""
        self._thread.start()

    def stop(self) -> None:
        """Take the row away."""
        self._stopped.set()
        self._thread.join(settings.WORKER_REPORT_SECONDS)

    def report(self) -> None:
        """Write the row; delete the rows of workers silent for long."""
        now = timezone.now()
        spark = spark_session.cluster()
        WorkerReport.objects.update_or_create(
            name=self._name,
            defaults={
                "queue": self._queue,
                "pid": os.getpid(),
                "slots": self._slots,
                "started_at": self._started_at,
                "seen_at": now,
                "code_version": code_version(),
                "spark_version": spark.version if spark else "",
                "spark_master": spark.master[:200] if spark else "",
                "executors": spark.executors if spark else None,
                "cores": spark.cores if spark else None,
                "busy_cores": spark.busy_cores if spark else None,
                "active_stages": spark.active_stages if spark else None,
                "spark_application": spark.application[:100] if spark else "",
                "spark_ui": spark.ui[:200] if spark else "",
            },
        )
        WorkerReport.objects.filter(seen_at__lt=now - _FORGOTTEN_AFTER).delete()

    def _run(self) -> None:
        try:
            self._try(self.report)
            while not self._stopped.wait(settings.WORKER_REPORT_SECONDS):
                self._try(self.report)
                spark_session.end_worker_if_dead()
            self._try(lambda: WorkerReport.objects.filter(name=self._name).delete())
        finally:
            connections.close_all()

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except DatabaseError:
            logger.warning("The report of %s could not be written", self._name)
            close_old_connections()


_reporters: list[Reporter] = []


@worker_ready.connect
def start_reporting(sender: Any, **_: object) -> None:  # noqa: ANN401 - Celery's consumer
    """Report from now on that this worker is alive, also while it is idle."""
    queues = sorted(sender.app.amqp.queues.consume_from)
    _reporters.append(Reporter(sender.hostname, ",".join(queues), slots=sender.pool.num_processes))
    _reporters[-1].start()


@worker_shutdown.connect
def stop_reporting(**_: object) -> None:
    """Take the row away before the process ends."""
    for reporter in _reporters:
        reporter.stop()
