"""A job's outcome matches the log, regardless of faults beside it."""

import pytest
from django.contrib.auth.models import User
from django.db import connection

from engine.errors import OperationCancelledError, RequestError, StorageError
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.catalog.registration import register_table
from lakeui.jobs import leases
from lakeui.jobs.cancel_retry import cancel_job
from lakeui.jobs.command_rules import command_of
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
def test_a_failure_after_the_commit_does_not_undo_it(job, monkeypatch, error):
    def run_and_fail(*args, **kwargs):
        run(*args, **kwargs)
        raise error

    monkeypatch.setattr(job_run, "run", run_and_fail)
    run_job(job)
    assert (job.state, job.committed_version, job.error_code) == (Job.State.SUCCEEDED, 1, "")
    assert job.attempt_rows.get().outcome == JobAttempt.Outcome.COMMITTED


def test_a_failure_before_the_commit_stays_a_failure(job, monkeypatch):
    monkeypatch.setattr(job_run, "run", lambda *_, **__: 1 / 0)
    assert run_job(job).state == Job.State.FAILED


def test_only_a_dry_run_ends_at_the_memory_that_a_read_may_take(job, monkeypatch):
    def run_out_of_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr(job_run, "run", run_out_of_memory)
    assert run_job(job).error_code == "LAKE_INTERNAL"
    dry_run = request_job(table=job.table, kind="delete", dry_run=True, requested_by=None)
    assert run_job(dry_run).error_code == "LAKE_READ_STOPPED"


def test_a_dry_run_leaves_the_mirror_of_its_table_to_other_workers(job):
    table = job.table
    dry_run = request_job(table=table, kind="delete", dry_run=True, requested_by=None)
    table.refresh_from_db()
    tried_at = table.mirror_tried_at
    assert run_job(dry_run).state == Job.State.SUCCEEDED
    table.refresh_from_db()
    assert table.mirror_tried_at == tried_at
    run_job(job)
    table.refresh_from_db()
    assert table.mirror_tried_at != tried_at


def test_a_job_whose_requester_was_deleted_is_not_run_as_the_system(job):
    ada = User.objects.create_superuser("ada")
    parameters = {"properties": {"team": "ours"}}
    hers = request_job(
        table=job.table, kind="set_properties", parameters=parameters, requested_by=ada
    )
    ada.delete()
    hers.refresh_from_db()
    assert run_job(hers).error_code == "LAKE_REQUESTER_GONE"
    assert run_job(job).state == Job.State.SUCCEEDED, "the system's own runs"
    assert DeltaTable.open(job.table.uri).version() == 1


@pytest.mark.parametrize("committed", [False, True])
def test_a_cancelled_job_whose_worker_fell_silent_is_looked_for_and_not_run_again(job, committed):
    lease = leases.claim(job.pk, "light@gone")
    leases.record(lease, base_version=0)
    if committed:
        command, table = command_of(job), DeltaTable.open(job.table.uri)
        run(command, table, None, txn_id=str(job.txn_id))
    cancel_job(job, None)
    Job.objects.filter(pk=job.pk).update(lease_expires_at=job.created_at)
    assert leases.requeue_expired() == [job.pk]
    run_job(job)
    assert DeltaTable.open(job.table.uri).version() == (1 if committed else 0)
    assert job.state == (Job.State.SUCCEEDED if committed else Job.State.CANCELLED)
    assert job.committed_version == (1 if committed else None)


def test_a_job_that_ends_after_one_of_its_commits_says_that_it_stays(job, monkeypatch):
    def run_and_fail(*args, **kwargs):
        run(*args, **kwargs)
        msg, remedy = "a later commit could not be made", "Nothing was written."
        raise RequestError(msg, remedy)

    monkeypatch.setattr(job_run, "run", run_and_fail)
    run_job(job)
    said = "a later commit could not be made Before that, it committed version 1, which stays committed."
    assert (job.state, job.error_message) == (Job.State.FAILED, said)


def test_an_error_is_kept_with_its_causes_bounded_and_without_secrets(job, monkeypatch, caplog):
    def refuse(*_, **__):
        error = StorageError("The store refused.", f"secret_key=hunter22 {'x' * 9000}")
        error.causes = ["S3Exception: X-Amz-Signature=hunter22", "y" * 9000]
        raise error from ConnectionError("403 of the store")

    monkeypatch.setattr(job_run, "run", refuse)
    run_job(job)
    assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_STORAGE_ERROR")
    first, second = job.error_facts["causes"]
    assert first.startswith("S3Exception: X-Amz-Signature=…")
    assert len(second) < 3000
    assert len(job.error_message) < 5000
    kept = f"{job.error_message} {job.error_facts} {job.attempt_rows.get().message}"
    assert "hunter22" not in kept + "".join(job.events.values_list("message", flat=True))
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert any(str(error.__cause__) == "403 of the store" for error in logged)


def test_a_fault_of_ours_is_kept_with_its_causes(job, monkeypatch):
    def fail(*_, **__):
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError as error:
            msg = "it went wrong"
            raise RuntimeError(msg) from error

    monkeypatch.setattr(job_run, "run", fail)
    run_job(job)
    assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_INTERNAL")
    told = ["RuntimeError: it went wrong", "ZeroDivisionError: division by zero"]
    assert job.error_facts["causes"] == told


def test_a_message_that_no_database_accepts_still_ends_the_job(job, monkeypatch):
    def refuse(*_, **__):
        msg = "a file holds \0 and \ud800"
        raise RequestError(msg, "Look at it.")

    monkeypatch.setattr(job_run, "run", refuse)
    run_job(job)
    assert job.state == Job.State.FAILED
    told = [job.error_message, job.attempt_rows.get().message, job.events.last().message]
    assert all("a file holds" in text and "\0" not in text for text in told)


def test_a_worker_that_dies_while_it_ends_a_job_leaves_it_whole_for_the_next(job):
    lease = leases.claim(job.pk, "light@here")

    def die_at_end(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "jobs_jobattempt" in sql and "outcome" in sql:
            raise KeyboardInterrupt
        return execute(sql, params, many, context)

    with connection.execute_wrapper(die_at_end), pytest.raises(KeyboardInterrupt):
        job_run.run_attempt(lease)
    job.refresh_from_db()
    assert job.state == Job.State.COMMITTING
    assert not JobEvent.objects.filter(job=job, message__startswith="Committed").exists()
    Job.objects.filter(pk=job.pk).update(lease_expires_at=job.created_at)
    assert leases.requeue_expired() == [job.pk]
    assert (run_job(job).state, job.committed_version) == (Job.State.SUCCEEDED, 1)
    outcomes = list(job.attempt_rows.order_by("number").values_list("outcome", flat=True))
    assert outcomes == ["lost", "committed"]
