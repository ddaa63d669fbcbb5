"""Periodic tasks: repair after failures, and request the jobs of schedules."""

from datetime import timedelta
from typing import Any

from auditlog.models import LogEntry
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from lakeui.api.idempotency import WINDOW
from lakeui.api.models import IdempotentAnswer
from lakeui.catalog.discovery import repeat_due, wake_all
from lakeui.celery import app
from lakeui.conflicts.models import Pipeline, PipelineTransaction
from lakeui.jobs.delivery import send_job, send_overdue
from lakeui.jobs.leases import requeue_expired
from lakeui.jobs.schedules import fire_due
from lakeui.jobs.turns import take_turns
from lakeui.jobs.uploads import remove_unused
from lakeui.monitoring.deliveries import LINEAGE_KEPT
from lakeui.monitoring.models import AlertDelivery, LineageEvent
from lakeui.task_names import FIRE_SCHEDULES, SWEEP_LEASES, TIDY_UPLOADS

BATCH = 1000
MOST = 100_000
"""At once; the next turn goes on."""


@app.task(name=SWEEP_LEASES)
@take_turns(SWEEP_LEASES, seconds=30)
def sweep_leases() -> None:
    """Requeue the jobs of silent workers, send unsent jobs, and repeat table searches."""
    for job_id in requeue_expired():
        send_job(job_id)
    send_overdue()
    repeat_due(timezone.now())
    wake_all()


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
