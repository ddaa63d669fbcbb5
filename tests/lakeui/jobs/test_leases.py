"""A job's row changes only under the fence of the worker that holds it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engine.errors import OperationCancelledError
from lakeui.catalog.models import Table
from lakeui.jobs import leases
from lakeui.jobs.cancel_retry import cancel_job
from lakeui.jobs.errors import LeaseLostError
from lakeui.jobs.models import Job, JobAttempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    table = Table.objects.create(name="sales.orders", uri="/lake/orders")
    return Job.objects.create(table=table, kind="optimize")


@pytest.fixture
def lease(job) -> leases.Lease:
    claimed = leases.claim(job.pk, "spark@here")
    assert claimed is not None
    return claimed


def expire(job: Job) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Job.objects.filter(pk=job.pk).update(lease_expires_at=past)


def test_only_one_delivery_of_a_message_claims_the_job(job, lease):
    assert leases.claim(job.pk, "spark@there") is None
    job.refresh_from_db()
    assert (job.state, job.worker, job.attempts) == (Job.State.RUNNING, "spark@here", 1)


def test_an_ended_job_is_not_claimed(job, lease):
    leases.finish(lease, Job.State.SUCCEEDED)
    assert leases.claim(job.pk, "spark@there") is None


def test_an_expired_lease_queues_the_job_and_marks_the_attempt_lost(job, lease):
    expire(job)
    assert leases.requeue_expired() == [job.pk]
    job.refresh_from_db()
    assert (job.state, job.sent_at) == (Job.State.QUEUED, None)
    assert job.attempt_rows.get().outcome == JobAttempt.Outcome.LOST


def test_a_job_that_loses_its_worker_again_and_again_fails(job, settings):
    settings.JOB_MAX_LOSSES = 2
    for _ in range(2):
        leases.claim(job.pk, "spark@here")
        expire(job)
        leases.requeue_expired()
    job.refresh_from_db()
    assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_WORKER_LOST")
    assert leases.claim(job.pk, "spark@here") is None


def test_a_lease_in_time_is_left_alone(job, lease):
    assert leases.requeue_expired() == []


def test_a_worker_that_returns_after_its_lease_may_write_nothing(job, lease):
    expire(job)
    leases.requeue_expired()
    second = leases.claim(job.pk, "spark@there")
    assert second is not None
    assert second.fence > lease.fence
    for write in (
        lambda: leases.renew(lease),
        lambda: leases.record(lease, base_version=3),
        lambda: leases.begin_commit(lease),
        lambda: leases.resume_running(lease),
        lambda: leases.finish(lease, Job.State.FAILED),
    ):
        with pytest.raises(LeaseLostError):
            write()
    job.refresh_from_db()
    assert (job.state, job.worker, job.base_version) == (Job.State.RUNNING, "spark@there", None)


def test_a_cancellation_in_time_stops_the_commit(job, lease):
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=timezone.now())
    assert leases.is_cancelled(lease)
    with pytest.raises(OperationCancelledError):
        leases.begin_commit(lease)


def test_a_cancellation_after_the_commit_began_is_too_late(job, lease):
    leases.begin_commit(lease)
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=timezone.now())
    leases.finish(lease, Job.State.SUCCEEDED, committed_version=4)
    job.refresh_from_db()
    assert (job.state, job.committed_version) == (Job.State.SUCCEEDED, 4)


def ask_to_cancel(job: Job) -> None:
    cancel_job(Job.objects.get(pk=job.pk), None)


def state_of(job: Job) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job.pk)


def test_a_cancelling_job_keeps_its_lease_until_its_worker_ends_it(job, lease):
    ask_to_cancel(job)
    leases.renew(lease)
    assert state_of(job) == Job.State.CANCELLING
    assert leases.claim(job.pk, "spark@there") is None
    leases.finish(lease, Job.State.CANCELLED)
    assert state_of(job) == Job.State.CANCELLED


@pytest.mark.parametrize("is_committing", [False, True])
def test_a_cancelling_job_whose_worker_fell_silent_is_claimed_once_more_as_cancelling(
    job, lease, is_committing
):
    if is_committing:
        leases.begin_commit(lease)
    ask_to_cancel(job)
    expire(job)
    assert leases.requeue_expired() == [job.pk]
    assert state_of(job) == Job.State.CANCELLING
    assert leases.requeue_expired() == []
    second = leases.claim(job.pk, "spark@there")
    assert second is not None
    assert state_of(job) == Job.State.CANCELLING
    assert leases.claim(job.pk, "spark@third") is None
    with pytest.raises(OperationCancelledError):
        leases.begin_commit(second)


def test_a_job_that_loses_its_commit_after_it_was_cancelled_does_not_run_on(job, lease):
    leases.begin_commit(lease)
    ask_to_cancel(job)
    assert state_of(job) == Job.State.COMMITTING
    leases.resume_running(lease)
    assert state_of(job) == Job.State.CANCELLING


def test_renewing_moves_the_expiry(job, lease):
    expire(job)
    leases.renew(lease)
    assert leases.requeue_expired() == []


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1)])
def test_a_host_whose_clock_is_wrong_neither_ends_nor_keeps_a_lease(job, monkeypatch, ahead):
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + ahead)
    lease = leases.claim(job.pk, "spark@wrong")
    assert lease is not None
    leases.renew(lease)
    monkeypatch.undo()
    assert leases.requeue_expired() == []
    monkeypatch.setattr(timezone, "now", lambda: real() + ahead)
    assert leases.requeue_expired() == []
    monkeypatch.undo()
    expire(job)
    monkeypatch.setattr(timezone, "now", lambda: real() + ahead)
    assert leases.requeue_expired() == [job.pk]
