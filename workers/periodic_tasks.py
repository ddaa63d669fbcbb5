"""Periodic tasks: repair after failures, jobs of schedules, alerts, and lineage.

Threads of a light worker wait for the servers that receive alerts and lineage, so that its pool
never does. A hanging webhook occupies a thread until its timeout, and there may be more of them
than the pool has threads: then no table would be mirrored and no lost job found meanwhile.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from auditlog.models import LogEntry
from celery.signals import worker_shutdown
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import close_old_connections
from django.db.models import QuerySet
from django.utils import timezone

from lakeui.api.models import IdempotentAnswer
from lakeui.api.request_headers import WINDOW
from lakeui.catalog.discovery import repeat_due, wake_all
from lakeui.celery import app
from lakeui.conflicts.models import Pipeline, PipelineTransaction
from lakeui.conflicts.statements.pairs import pair_older_conflicts
from lakeui.jobs.job_rows import send_job, send_overdue
from lakeui.jobs.leases import requeue_expired
from lakeui.jobs.schedules import fire_due
from lakeui.jobs.turns import take_turns
from lakeui.jobs.uploads import remove_unused
from lakeui.monitoring.alerting.channels import MOST_CHANNELS, wake
from lakeui.monitoring.alerting.outbox import deliver, due_channels
from lakeui.monitoring.alerting.watch import watch
from lakeui.monitoring.deliveries import LINEAGE_KEPT
from lakeui.monitoring.models import AlertDelivery, LineageEvent
from lakeui.task_names import (
    DELIVER_ALERTS,
    DELIVER_LINEAGE,
    FIRE_SCHEDULES,
    LIGHT_QUEUE,
    NOTE_LINEAGE,
    SWEEP_LEASES,
    TIDY_UPLOADS,
    WATCH_FOR_ALERTS,
)

logger = logging.getLogger(__name__)

BATCH = 1000
MOST = 100_000
"""At once; the next turn goes on."""

AT_A_TIME = 4  # concurrent tries of one worker


@app.task(name=SWEEP_LEASES)
@take_turns(SWEEP_LEASES, seconds=30)
def sweep_leases() -> None:
    """Requeue the jobs of silent workers, send unsent jobs, and repeat table searches.

    Also pair some older conflicts: the work of an update, in small parts.
    """
    for job_id in requeue_expired():
        send_job(job_id)
    send_overdue()
    repeat_due(timezone.now())
    wake_all()
    pair_older_conflicts()


@app.task(name=FIRE_SCHEDULES)
@take_turns(FIRE_SCHEDULES, seconds=60)
def fire_schedules() -> None:
    """Request the jobs of due schedules."""
    fire_due()


@app.task(name=TIDY_UPLOADS)
@take_turns(TIDY_UPLOADS, seconds=1800)
def tidy_uploads() -> None:
    """Remove unneeded uploaded files and rows."""
    remove_unused()
    forget_spent_rows()


def forget_spent_rows() -> int:
    """Remove spent rows, and audit and pipeline records past their retention; return the number.

    Jobs and conflicts stay, with the transaction of each: an aborted write is recorded nowhere
    else, and the metrics count them.
    """
    now, days = timezone.now(), settings.AUDIT_KEEP_DAYS
    gone = _remove(Session.objects.filter(expire_date__lt=now))
    gone += _remove(IdempotentAnswer.objects.filter(created_at__lt=now - WINDOW))
    before = now - timedelta(days=settings.PIPELINE_KEEP_DAYS)
    reported = PipelineTransaction.objects.filter(reported_at__lt=before)
    gone += _remove(reported.filter(conflicts__isnull=True))
    silent = Pipeline.objects.filter(last_seen_at__lt=before)
    gone += _remove(silent.filter(transactions__isnull=True))
    kept_from = now - timedelta(days=settings.ALERT_KEEP_DAYS)
    gone += _remove(AlertDelivery.objects.filter(created_at__lt=kept_from))
    told = LineageEvent.objects.filter(created_at__lt=now - LINEAGE_KEPT, next_try_at=None)
    gone += _remove(told)
    if days:
        gone += _remove(LogEntry.objects.filter(timestamp__lt=now - timedelta(days=days)))
    return gone


def _remove(rows: QuerySet[Any]) -> int:
    """Delete rows in batches: no other writer waits for long."""
    gone = 0
    while gone < MOST and (batch := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])):
        rows.model._default_manager.filter(pk__in=batch).delete()
        gone += len(batch)
    return gone


@app.task(name=WATCH_FOR_ALERTS)
@take_turns(WATCH_FOR_ALERTS, seconds=120)
def watch_for_alerts() -> None:
    """Evaluate every rule, then have each channel with due messages served in its own task.

    A webhook that hangs then delays no other channel and no rule.
    """
    now = timezone.now()
    try:
        watch(now)
    finally:
        for channel_id in due_channels(now):
            wake(channel_id)


@app.task(name=DELIVER_ALERTS)
def deliver_alerts(channel_id: int) -> None:
    """Send the due messages of one channel."""
    SENDERS.take(f"channel {channel_id}", partial(deliver, channel_id))


@app.task(name=NOTE_LINEAGE)
@take_turns(NOTE_LINEAGE, seconds=120)
def note_lineage() -> None:
    """Record starts and ends; another task sends them, so that a hanging server delays no round."""
    if not settings.LINEAGE_URL:
        return
    from lakeui.monitoring.lineage.rounds import note  # noqa: PLC0415 - packages of an extra

    note(timezone.now())
    app.send_task(DELIVER_LINEAGE, queue=LIGHT_QUEUE, expires=60)


@app.task(name=DELIVER_LINEAGE)
def deliver_lineage() -> None:
    """Send the due events."""
    if settings.LINEAGE_URL:
        from lakeui.monitoring.lineage.outbox import deliver  # noqa: PLC0415 - as above

        any(SENDERS.take(f"lineage {place}", deliver) for place in range(AT_A_TIME))


class Deliver(Protocol):
    """Sends due messages; calls `ends` before each message to stop early."""

    def __call__(self, *, ends: Callable[[], bool]) -> object: ...


class Senders:
    """Up to a number of threads, started on demand; one thread sends at a time for each key."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="sender")
        self._lock = threading.Lock()
        self._busy: set[object] = set()
        self._ended = threading.Event()

    def take(self, key: object, deliver: Deliver) -> bool:
        """Send in a thread, unless the key is busy or the worker ends; return whether it does."""
        with self._lock:
            if key in self._busy or self._ended.is_set():
                return False
            self._busy.add(key)
        self._pool.submit(self._send, key, deliver)
        return True

    def end(self) -> None:
        """Start nothing more; running attempts end in their time."""
        with self._lock:
            self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, key: object, deliver: Deliver) -> None:
        try:
            deliver(ends=self._ended.is_set)
        except Exception:  # such as the database: claimed rows are due again when their lease ends
            logger.exception("The messages of %s could not be sent", key)
        finally:
            close_old_connections()
            with self._lock:
                self._busy.discard(key)


SENDERS = Senders(MOST_CHANNELS + 10)
"""A thread for each channel of alerts and for lineage: however many hang, the next one is served at once."""


@worker_shutdown.connect
def end_senders(**_: object) -> None:
    """Leave pending messages to other workers."""
    SENDERS.end()
