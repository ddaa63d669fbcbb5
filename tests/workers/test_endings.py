"""How a job ends says what is in the log, whatever happened beside it."""

import pytest
from django.db import connection

from engine.errors import OperationCancelledError, RequestError
from engine.operations.run import run
from lakeui.catalog.registration import register_table
from lakeui.jobs import leases
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from lakeui.jobs.requests import request_job
from tests.lakeui.catalog.log_writer import new_table
from workers import job_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(lake):
    new_table(lake / "lake/orders")
    table = register_table(str(lake / "lake/orders"), "sales.orders")
    parameters = {"properties": {"team": "sales"}}
    return request_job(table=table, kind="set_properties", parameters=parameters, requested_by=None)


def run_job(job):
    lease = leases.claim(job.pk, "light@here")
    assert lease is not None
    job_run.run_attempt(lease)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    "error",
    [OperationCancelledError("cancelled", "Nothing was written."), ZeroDivisionError("after it")],
)
def test_what_fails_after_the_commit_does_not_undo_it(job, monkeypatch, error):
    def stumbling(*args, **kwargs):
        run(*args, **kwargs)
        raise error

    monkeypatch.setattr(job_run, "run", stumbling)
    run_job(job)
    assert (job.state, job.committed_version, job.error_code) == (Job.State.SUCCEEDED, 1, "")
    assert job.attempt_rows.get().outcome == JobAttempt.Outcome.COMMITTED


def test_what_fails_before_the_commit_stays_a_failure(job, monkeypatch):
    monkeypatch.setattr(job_run, "run", lambda *_, **__: 1 / 0)
    assert run_job(job).state == Job.State.FAILED


def test_a_message_that_no_database_takes_ends_the_job_all_the_same(job, monkeypatch):
    def refusing(*_, **__):
        msg = "a file holds \0 and \ud800"
        raise RequestError(msg, "Look at it.")

    monkeypatch.setattr(job_run, "run", refusing)
    run_job(job)
    assert job.state == Job.State.FAILED
    told = [job.error_message, job.attempt_rows.get().message, job.events.last().message]
    assert all("a file holds" in each and "\0" not in each for each in told)


def test_a_worker_that_dies_while_it_ends_a_job_leaves_it_whole_for_the_next(job):
    lease = leases.claim(job.pk, "light@here")

    def dying(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "jobs_jobattempt" in sql and "outcome" in sql:
            raise KeyboardInterrupt
        return execute(sql, params, many, context)

    with connection.execute_wrapper(dying), pytest.raises(KeyboardInterrupt):
        job_run.run_attempt(lease)
    job.refresh_from_db()
    assert job.state == Job.State.COMMITTING
    assert not JobEvent.objects.filter(job=job, message__startswith="Committed").exists()
    Job.objects.filter(pk=job.pk).update(lease_expires_at=job.created_at)
    assert leases.requeue_expired() == [job.pk]
    assert (run_job(job).state, job.committed_version) == (Job.State.SUCCEEDED, 1)
    outcomes = list(job.attempt_rows.order_by("number").values_list("outcome", flat=True))
    assert outcomes == ["lost", "committed"]
