"""Who may write to a job's row: every change of state is a compare-and-set.

A worker claims a job, which draws a new fencing number; from then on it writes only while the row
has that number. A worker paused past its lease finds a newer number and stops. So a message
delivered twice, or a worker that comes back from the dead, changes nothing.

Leases use the database's clock: the hosts' clocks need not agree.

States: queued → running ⇄ committing → succeeded, failed, conflicted or cancelled. A request to
cancel leads from queued or running to cancelling, and an expired lease back to queued, with a
higher number. A cancelling job whose lease expired is taken once more: only to check whether it had
committed.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from engine.errors import OperationCancelledError
from lakeui.jobs.errors import LeaseLostError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt, JobEvent

CLAIMABLE = Q(state=Job.State.QUEUED) | Q(state=Job.State.CANCELLING, lease_expires_at=None)
"""Jobs that wait for a worker."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one worker to write to one job's row, while the row has this `fence`.

    `job` is the row as it was claimed, with its table and its requester.
    """

    job: Job
    worker: str
    fence: int
    attempt: int

    @property
    def job_id(self) -> UUID:
        return self.job.pk


def claim(job_id: UUID, worker: str) -> Lease | None:
    """Claim a waiting job. Return None if another delivery took it or it has ended."""
    now = timezone.now()
    with transaction.atomic():
        taken = Job.objects.filter(CLAIMABLE, pk=job_id).update(
            state=_state_unless_cancelled(Job.State.RUNNING),
            worker=worker,
            fence=F("fence") + 1,
            attempts=F("attempts") + 1,
            started_at=Coalesce("started_at", now),
            **_lease_times(),
        )
        if not taken:
            return None
        job = Job.objects.select_related("table", "requested_by").get(pk=job_id)
        JobAttempt.objects.create(job=job, number=job.attempts, worker=worker, started_at=now)
        does = (
            "looks for the commit of an earlier attempt" if job.cancel_requested_at else "started"
        )
        log_event(job_id, f"Attempt {job.attempts} {does}", worker=worker)
    return Lease(job, worker, job.fence, job.attempts)


def renew(lease: Lease) -> None:
    """Extend the lease; raise `LeaseLostError` if another worker has the job."""
    if not _rows(lease).update(**_lease_times()):
        raise LeaseLostError


def is_cancelled(lease: Lease) -> bool:
    """Whether someone requested to cancel the job."""
    return Job.objects.filter(pk=lease.job_id, cancel_requested_at__isnull=False).exists()


def record(lease: Lease, **fields: object) -> None:
    """Set fields of the row other than its state: progress, the base version.

    Raises:
        LeaseLostError: another worker has the job.
    """
    if not _rows(lease).update(**fields):
        raise LeaseLostError


def begin_commit(lease: Lease) -> None:
    """Begin the commit, after which a cancellation is too late: the last call before the log write.

    Raises:
        OperationCancelledError: the cancellation came in time.
        LeaseLostError: another worker has the job.
    """
    uncancelled = _rows(lease).filter(cancel_requested_at__isnull=True)
    if uncancelled.update(state=Job.State.COMMITTING, **_lease_times()):
        return
    if _rows(lease).exists():
        msg = "The job was cancelled before its commit."
        raise OperationCancelledError(msg, "Nothing was written.")
    raise LeaseLostError


def resume_running(lease: Lease) -> None:
    """Resume the job after an aborted or partial commit, unless it was cancelled.

    Raises:
        LeaseLostError: another worker has the job.
    """
    state = _state_unless_cancelled(Job.State.RUNNING)
    if not _rows(lease).update(state=state, **_lease_times()):
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


def give_up(lease: Lease, why: str) -> bool:
    """End an attempt after an outage, and queue the job again; return whether it is queued.

    A job that lost its workers too often fails instead: it may be the cause.

    Raises:
        LeaseLostError: another worker has the job.
    """
    with transaction.atomic():
        held = _rows(lease)
        job = held.first()
        if job is None:
            raise LeaseLostError
        return _lose(job, held, why)


def requeue_expired() -> list[UUID]:
    """Give up leases of silent workers, as `give_up` does; return the jobs queued again."""
    expired = Job.objects.filter(state__in=Job.AT_WORK, lease_expires_at__lt=Now())
    return [job.pk for job in expired if _requeue(job)]


def _requeue(job: Job) -> bool:
    still = Job.objects.filter(
        pk=job.pk, fence=job.fence, state__in=Job.AT_WORK, lease_expires_at=job.lease_expires_at
    )
    with transaction.atomic():
        try:
            return _lose(job, still, f"{job.worker} fell silent.")
        except LeaseLostError:  # renewed after all, or ended
            return False


def _lose(job: Job, held: QuerySet[Job], why: str) -> bool:
    """Whether the job is queued again, and not failed."""
    losses = job.attempt_rows.filter(outcome=JobAttempt.Outcome.LOST).count() + 1
    fails = losses >= settings.JOB_MAX_LOSSES
    ending = _give_up_fields(losses, why) if fails else _requeue_fields()
    if not held.update(fence=F("fence") + 1, lease_expires_at=None, **ending):
        raise LeaseLostError
    JobAttempt.objects.filter(job=job, outcome=JobAttempt.Outcome.RUNNING).update(
        outcome=JobAttempt.Outcome.LOST, finished_at=timezone.now(), message=why
    )
    what = "The job fails" if fails else "The job is queued again"
    log_event(job.pk, f"{what}. {why}", JobEvent.Level.WARNING, fence=job.fence)
    return not fails


def _requeue_fields() -> dict[str, Any]:
    return {"state": _state_unless_cancelled(Job.State.QUEUED), "worker": "", "sent_at": None}


def _state_unless_cancelled(state: Job.State) -> Case:
    uncancelled = When(cancel_requested_at__isnull=True, then=Value(state))
    return Case(uncancelled, default=Value(Job.State.CANCELLING))


def _give_up_fields(losses: int, why: str) -> dict[str, Any]:
    return {
        "state": Job.State.FAILED,
        "finished_at": timezone.now(),
        "error_code": "LAKE_WORKER_LOST",
        "error_message": (
            f"{losses} attempts of this job were lost. The last error: {why} Check the "
            "workers' logs, then retry the job. It detects a commit of an earlier attempt."
        ),
    }


def _rows(lease: Lease) -> QuerySet[Job]:
    return Job.objects.filter(pk=lease.job_id, fence=lease.fence, state__in=Job.AT_WORK)


def _lease_times() -> dict[str, Any]:
    expiry = Now() + timedelta(seconds=settings.JOB_LEASE_SECONDS)
    return {"heartbeat_at": Now(), "lease_expires_at": expiry}
