"""Waking the workers. The row is the truth: a lost or duplicate message changes nothing."""

from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import OperationalError

from engine.clock import Clock, SystemClock
from lakeui.catalog.clocks import CLOCKS_DIFFER
from lakeui.celery import app
from lakeui.jobs.events import log_event
from lakeui.jobs.leases import CLAIMABLE
from lakeui.jobs.models import Job, JobEvent
from lakeui.task_names import RUN_JOB

LONGEST_SILENCE = timedelta(minutes=10)
MOST_A_SWEEP = 500
SWEEP_BUDGET_S = 10.0
_GRACE_S = 10


def send_on_commit(job: Job) -> None:
    """Send the job once its row is there for a worker to find."""
    transaction.on_commit(lambda: send_job(job.pk), robust=True)


def send_job(job_id: UUID) -> bool:
    """Wake a worker for a waiting job; return whether the broker took the message.

    If the broker is down, only time is lost: the job stays queued with `sent_at` null, its log says
    so, and the sweeper sends it later.
    """
    try:
        return _send(job_id)
    except BrokerDownError:
        return False


class BrokerDownError(Exception):
    """The broker did not take a message."""


def _send(job_id: UUID) -> bool:
    job = Job.objects.filter(CLAIMABLE, pk=job_id).first()
    if job is None:
        return False
    try:
        app.send_task(RUN_JOB, [str(job_id)], queue=job.queue, time_limit=_hard_limit_of(job))
    except (OperationalError, OSError) as error:
        _note_broker_down(job, error)
        raise BrokerDownError from error
    Job.objects.filter(pk=job_id).update(sent_at=timezone.now())
    return True


def _hard_limit_of(job: Job) -> int | None:
    """Seconds after which the process of a dry run is ended, where its own limit did not end it."""
    return job.time_limit_s + _GRACE_S if job.dry_run and job.time_limit_s else None


def take_back(job_id: UUID) -> None:
    """Reset a job whose worker could not take it: the sweeper sends another message."""
    Job.objects.filter(CLAIMABLE, pk=job_id).update(sent_at=None)


def send_overdue(clock: Clock | None = None) -> int:
    """Send waiting jobs that no worker can know of: never sent, or sent long ago and not taken.

    A job waiting behind others is sent again too; its second delivery loses the claim. Repeats
    become rarer over time, so that an unserved queue does not fill the broker. Jobs never sent come
    first, then the oldest. A sweep sends at most `MOST_A_SWEEP` jobs, begins none after
    `SWEEP_BUDGET_S` and ends if the broker is down: the next sweep continues.
    """
    clock = clock or SystemClock()
    now, until_s = timezone.now(), clock.monotonic_s() + SWEEP_BUDGET_S
    waiting = Job.objects.filter(CLAIMABLE).order_by(
        F("sent_at").asc(nulls_first=True), "created_at"
    )
    rows = waiting.values_list("pk", "created_at", "sent_at")
    due = (pk for pk, asked_at, sent_at in rows.iterator() if _is_due(now, asked_at, sent_at))
    sent = 0
    for job_id in list(islice(due, MOST_A_SWEEP)):
        if clock.monotonic_s() >= until_s:
            break
        try:
            sent += _send(job_id)
        except BrokerDownError:
            break
    return sent


def _is_due(now: datetime, asked_at: datetime, sent_at: datetime | None) -> bool:
    """Whether to send a job again: after twice a lease, then each time twice as late.

    Resend it if `sent_at` lies in the future (clock skew).
    """
    if sent_at is None or sent_at > now + CLOCKS_DIFFER:
        return True
    least = timedelta(seconds=2 * settings.JOB_LEASE_SECONDS)
    return now - sent_at > max(least, min(sent_at - asked_at, LONGEST_SILENCE))


def _note_broker_down(job: Job, error: Exception) -> None:
    message = "The broker cannot be reached: the job stays queued and is sent when it is back"
    if not JobEvent.objects.filter(job=job, message=message).exists():
        log_event(job.pk, message, JobEvent.Level.WARNING, error=type(error).__name__)
