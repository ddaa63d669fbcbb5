"""Who may write to a job's row: every change of state is a compare-and-set.

A worker takes a job by claiming it, which draws a new fencing number; from then on it writes only
where that number still stands. A worker that was paused past its lease finds its number overtaken
and stops. So a message delivered twice, or a worker that comes back from the dead, changes nothing.

Leases are counted by the database's clock: those of the hosts need not agree.

queued → running ⇄ committing → succeeded, failed, conflicted or cancelled; an expired lease leads
back to queued, with a higher number.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from engine.errors import OperationCancelledError
from lakeui.jobs.errors import LeaseLostError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt, JobEvent

_HELD = (Job.State.RUNNING, Job.State.COMMITTING)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one worker to write to one job's row, as long as `fence` stands."""

    job_id: UUID
    worker: str
    fence: int
    attempt: int


def claim(job_id: UUID, worker: str) -> Lease | None:
    """Take a queued job. None: it is not queued, so another delivery took it or it has ended."""
    now = timezone.now()
    with transaction.atomic():
        taken = Job.objects.filter(pk=job_id, state=Job.State.QUEUED).update(
            state=Job.State.RUNNING,
            worker=worker,
            fence=F("fence") + 1,
            attempts=F("attempts") + 1,
            started_at=Coalesce("started_at", now),
            **_lease_times(),
        )
        if not taken:
            return None
        job = Job.objects.get(pk=job_id)
        JobAttempt.objects.create(job=job, number=job.attempts, worker=worker, started_at=now)
        log_event(job_id, f"Attempt {job.attempts} started", worker=worker)
    return Lease(job_id, worker, job.fence, job.attempts)


def renew(lease: Lease) -> None:
    """Extend the lease.

    Raises:
        LeaseLostError: another worker has the job.
    """
    if not _rows(lease).update(**_lease_times()):
        raise LeaseLostError


def is_cancelled(lease: Lease) -> bool:
    """Whether someone asked to cancel the job."""
    return Job.objects.filter(pk=lease.job_id, cancel_requested_at__isnull=False).exists()


def record(lease: Lease, **fields: object) -> None:
    """Set fields of the row that are not its state: progress, the base version.

    Raises:
        LeaseLostError: another worker has the job.
    """
    if not _rows(lease).update(**fields):
        raise LeaseLostError


def to_committing(lease: Lease) -> None:
    """From here a cancellation comes too late: called last before the log is written to.

    Raises:
        OperationCancelledError: it came in time.
        LeaseLostError: another worker has the job.
    """
    uncancelled = _rows(lease).filter(cancel_requested_at__isnull=True)
    if uncancelled.update(state=Job.State.COMMITTING, **_lease_times()):
        return
    if _rows(lease).exists():
        msg = "The job was cancelled before its commit."
        raise OperationCancelledError(msg, "Nothing was written.")
    raise LeaseLostError


def to_running(lease: Lease) -> None:
    """The commit lost and the job tries again.

    Raises:
        LeaseLostError: another worker has the job.
    """
    if not _rows(lease).update(state=Job.State.RUNNING, **_lease_times()):
        raise LeaseLostError


def finish(lease: Lease, state: Job.State, **fields: object) -> None:
    """End the job.

    Raises:
        LeaseLostError: another worker has the job; its own ending will stand.
    """
    ended = {
        "state": state,
        "finished_at": timezone.now(),
        "lease_expires_at": None,
        "progress_stage": "",
        **fields,
    }
    if not _rows(lease).update(**ended):
        raise LeaseLostError


def requeue_expired() -> list[UUID]:
    """Give up leases whose workers fell silent; the jobs that are queued again.

    A job that lost its worker too often fails instead: it may be what ends them.
    """
    expired = Job.objects.filter(state__in=_HELD, lease_expires_at__lt=Now())
    return [job.pk for job in expired if _requeue(job)]


def _requeue(job: Job) -> bool:
    with transaction.atomic():
        losses = job.attempt_rows.filter(outcome=JobAttempt.Outcome.LOST).count() + 1
        gives_up = losses >= settings.JOB_MAX_LOSSES
        lost = Job.objects.filter(
            pk=job.pk, fence=job.fence, state__in=_HELD, lease_expires_at=job.lease_expires_at
        ).update(
            fence=F("fence") + 1,
            lease_expires_at=None,
            **(_given_up(losses) if gives_up else _queued_again()),
        )
        if not lost:
            return False
        JobAttempt.objects.filter(job=job, outcome=JobAttempt.Outcome.RUNNING).update(
            outcome=JobAttempt.Outcome.LOST,
            finished_at=timezone.now(),
            message=f"{job.worker} fell silent.",
        )
        log_event(
            job.pk,
            f"{job.worker} fell silent: the job {'fails' if gives_up else 'is queued again'}",
            JobEvent.Level.WARNING,
            fence=job.fence,
        )
    return not gives_up


def _queued_again() -> dict[str, Any]:
    return {"state": Job.State.QUEUED, "worker": "", "sent_at": None}


def _given_up(losses: int) -> dict[str, Any]:
    return {
        "state": Job.State.FAILED,
        "finished_at": timezone.now(),
        "error_code": "LAKE_WORKER_LOST",
        "error_message": (
            f"{losses} workers fell silent while they ran this job. Look at their logs, then retry "
            "it: a commit that it may have made is recognised."
        ),
    }


def _rows(lease: Lease) -> QuerySet[Job]:
    return Job.objects.filter(pk=lease.job_id, fence=lease.fence, state__in=_HELD)


def _lease_times() -> dict[str, Any]:
    expiry = Now() + timedelta(seconds=settings.JOB_LEASE_SECONDS)
    return {"heartbeat_at": Now(), "lease_expires_at": expiry}
