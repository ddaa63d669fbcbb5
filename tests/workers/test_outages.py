"""A dead JVM, a lost executor and a locked database end an attempt, but not the job."""

import sqlite3
from contextlib import closing

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from engine.errors import OperationCancelledError
from engine.operations.run import run
from engine.spark.failures import SparkJobError, SparkLostError
from engine.spark.jobs import Progress
from engine.table import DeltaTable
from lakeui.catalog.registration import register_table
from lakeui.jobs import leases
from lakeui.jobs.job_rows import send_job
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.requests import request_job
from tests.lakeui.catalog.log_writer import new_table
from tests.services import CLOCK, wait_until
from tests.workers.test_job_lifecycle import (
    another_active_job,
    commits,
    holds,
    set_property,
    wait_for_end,
)
from workers import failures, job_run, jobs, script, spark_session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

LOST = SparkLostError("Spark stopped while it worked on orders: 137.", "Run it again.")


@pytest.fixture
def orders(lake, settings):
    settings.DATABASE_PATIENCE_SECONDS = 20
    new_table(lake / "lake/orders")
    return register_table(str(lake / "lake/orders"), "sales.orders")


def take(job: Job, *refused: int) -> Job:
    """Run the task as a worker that gets the message, with a database locked at some statements."""
    with connection.execute_wrapper(Refusing(*refused)):
        jobs.run_job.apply(args=[str(job.pk)])
    job.refresh_from_db()
    return job


def take_until_ended(job: Job) -> Job:
    while job.state not in Job.ENDED:
        Job.objects.filter(pk=job.pk).update(lease_expires_at=F("created_at"))
        leases.requeue_expired()
        take(job)
    return job


class Refusing:
    """A database that is locked at some statements, counted from 0."""

    def __init__(self, *statements: int) -> None:
        self._at, self.seen = statements, 0

    def __call__(self, execute, sql, params, many, context):
        number, self.seen = self.seen, self.seen + 1
        if number in self._at:
            msg = "database is locked"
            raise OperationalError(msg)
        return execute(sql, params, many, context)


def list_commits(table) -> list[str]:
    return [info.txn_id for info in DeltaTable.open(table.uri).history() if info.txn_id]


def test_whichever_statement_the_database_refuses_the_job_lands_once(orders):
    with connection.execute_wrapper(database := Refusing()):
        jobs.run_job.apply(args=[str(set_property(orders).pk)])
    assert database.seen > 20
    for refused_at in range(database.seen):
        job = take(set_property(orders, f"key{refused_at}"), refused_at)
        take_until_ended(job)
        assert (job.state, job.error_message) == (Job.State.SUCCEEDED, ""), refused_at
        assert list_commits(orders).count(str(job.txn_id)) == 1, refused_at


def test_a_database_that_stays_away_leaves_the_job_to_the_sweeper(orders, settings):
    settings.DATABASE_PATIENCE_SECONDS = 0
    job = take(set_property(orders), *range(8, 1000))
    assert job.state == Job.State.RUNNING
    assert take_until_ended(job).state == Job.State.SUCCEEDED
    assert job.attempt_rows.get(number=1).outcome == JobAttempt.Outcome.LOST


def test_a_job_whose_spark_was_lost_is_queued_again_and_says_why(orders, monkeypatch):
    monkeypatch.setattr(job_run, "run", fail_first(LOST))
    job = take(set_property(orders))
    assert (job.state, job.error_code) == (Job.State.QUEUED, "")
    attempt = job.attempt_rows.get()
    assert (attempt.outcome, attempt.message) == (JobAttempt.Outcome.LOST, str(LOST))
    assert job.events.filter(level="warning", message__contains=str(LOST)).exists()
    assert take(job).state == Job.State.SUCCEEDED
    assert commits(orders) == ["SET TBLPROPERTIES", "CREATE TABLE"]


def fail_first(error: Exception, times: int = 1):
    """Return the engine's `run`, which fails a number of times before it does anything."""
    left = [error] * times

    def perform(*args, **keywords):
        if left:
            raise left.pop()
        return run(*args, **keywords)

    return perform


def test_a_job_that_loses_spark_each_time_fails_in_the_end(orders, monkeypatch, settings):
    settings.JOB_MAX_LOSSES = 3
    monkeypatch.setattr(job_run, "run", fail_first(LOST, 3))
    job = take(take(take(set_property(orders))))
    assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_WORKER_LOST")
    assert job.error_message.startswith(f"3 attempts of this job were lost. The last error: {LOST}")
    assert take(job).attempts == 3, "it has ended"


def test_losing_spark_after_the_commit_undoes_nothing(orders, monkeypatch):
    def run_and_lose(*args, **keywords):
        run(*args, **keywords)
        raise LOST

    monkeypatch.setattr(job_run, "run", run_and_lose)
    job = take(set_property(orders))
    monkeypatch.undo()
    assert take_until_ended(job).state == Job.State.SUCCEEDED
    assert commits(orders) == ["SET TBLPROPERTIES", "CREATE TABLE"]


def test_a_script_continues_with_the_step_in_which_spark_was_lost(orders, monkeypatch):
    steps = [f"ALTER TABLE t SET TBLPROPERTIES ('k{n}' = 'v')" for n in (1, 2, 3)]
    job = request_job(table=orders, sql="; ".join(steps), requested_by=None)
    fails = fail_first(LOST)

    def lose_second(command, *args, **keywords):
        first = command.properties == {"k1": "v"}
        return (run if first else fails)(command, *args, **keywords)

    monkeypatch.setattr(script, "run", lose_second)
    assert take(job).state == Job.State.QUEUED
    assert take(job).state == Job.State.SUCCEEDED
    assert commits(orders) == [*["SET TBLPROPERTIES"] * 3, "CREATE TABLE"]


@pytest.mark.parametrize(
    ("meanwhile", "state", "code"),
    [
        ({"cancel_requested_at": F("created_at")}, Job.State.CANCELLED, ""),
        ({}, Job.State.FAILED, "LAKE_TIME_LIMIT"),
    ],
)
def test_an_unwanted_job_is_not_run_again(orders, monkeypatch, meanwhile, state, code):
    job = set_property(orders)
    Job.objects.filter(pk=job.pk).update(time_limit_s=60 if meanwhile else 1)

    def lose_spark(command, table, spark, options):
        if meanwhile:
            Job.objects.filter(pk=job.pk).update(**meanwhile)
        wait_until(lambda: is_refused(options.progress), "the heartbeat to see it")
        raise LOST

    monkeypatch.setattr(job_run, "run", lose_spark)
    job = take(job)
    assert (job.state, job.error_code) == (state, code)
    assert commits(orders) == ["CREATE TABLE"]


def is_refused(progress) -> bool:
    try:
        progress(Progress("wait", 0, 0))
    except OperationCancelledError:
        return True
    return False


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [(LOST, True), (OperationalError("locked"), True), (SparkJobError("no", ""), False)],
)
def test_faults_of_the_machine_are_distinguished_from_faults_of_the_job(error, is_outage):
    assert (failures.outage_behind(error) is not None) is is_outage
    assert not spark_session.has_died()


@pytest.mark.parametrize(
    ("timeout_s", "held_s"), [(1, 5), pytest.param(20, 45, marks=pytest.mark.stress)]
)
def test_a_database_that_another_writer_holds_costs_a_job_an_attempt_and_no_more(
    table, start_worker, monkeypatch, timeout_s, held_s
):
    monkeypatch.setenv("SQLITE_TIMEOUT_SECONDS", str(timeout_s))
    start_worker("light")
    other = another_active_job(table)
    job = set_property(table, commit_after=other)
    holds(job)
    held_until = CLOCK.monotonic_s() + held_s
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as holder:
        holder.execute("UPDATE jobs_job SET state = 'succeeded' WHERE id = ?", [other.pk.hex])
        holder.commit()  # from now on the worker may commit; before it can say so:
        holder.execute("BEGIN IMMEDIATE")
        wait_until(lambda: CLOCK.monotonic_s() > held_until, "the other writer", 2 * held_s)
    job = wait_for_end(job)
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")
    assert "database is locked" in job.attempt_rows.get(number=1).message
    assert commits(table) == ["SET TBLPROPERTIES", "CREATE TABLE"]
    waiting = Job(
        table=table, kind="set_properties", parameters={"properties": {"a": "b"}}, by_system=True
    )
    waiting.queue = "light"
    waiting.save(force_insert=True)
    send_job(waiting.pk)
    assert wait_for_end(waiting).state == Job.State.SUCCEEDED
