"""Jobs in real worker processes that are killed, paused, cancelled and delivered twice."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection, transaction

from engine.commands.model import SetProperties
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.cancel_retry import cancel_job
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.job_rows import send_job
from lakeui.jobs.models import Job, JobAttempt, WorkerReport
from lakeui.jobs.requests import request_job
from lakeui.jobs.timeline import HOLDING, WAITING, cost_of
from tests.services import WorkerProcess, point_celery_to, wait_until
from workers.periodic_tasks import sweep_leases
from workers.rehearsal import announce_end

pytestmark = pytest.mark.timeout(120)


def set_property(table: Table, key: str = "team", **more) -> Job:
    return request_job(
        table=table,
        kind="set_properties",
        parameters={"properties": {key: "sales"}},
        requested_by=None,
        **more,
    )


def wait_for_end(job: Job) -> Job:
    """Return the job when it has ended."""
    wait_until(lambda: not Job.objects.get(pk=job.pk).is_active, f"the end of {job}")
    job.refresh_from_db()
    return job


def another_active_job(table: Table, **more) -> Job:
    """Return a job without a worker: later commits wait for it."""
    return Job.objects.create(table=table, kind="optimize", state=Job.State.RUNNING, **more)


def end(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(state=Job.State.SUCCEEDED)
    announce_end(job.pk)


def holds(job: Job) -> None:
    wait_until(
        lambda: Job.objects.filter(pk=job.pk, progress_stage=HOLDING).exists(), f"{job} to hold"
    )


def waits(job: Job) -> None:
    wait_until(
        lambda: Job.objects.filter(pk=job.pk, progress_stage=WAITING).exists(), f"{job} to wait"
    )


def step_names(job: Job) -> list[str]:
    return list(job.attempt_rows.get().stages.order_by("place").values_list("name", flat=True))


def sweep_until_requeued(job: Job) -> None:
    def sweep() -> bool:
        sweep_leases()
        return JobAttempt.objects.filter(job=job, outcome=JobAttempt.Outcome.LOST).exists()

    wait_until(sweep, "the lease to expire")


def pause(worker: WorkerProcess) -> None:
    """Stop a worker, but not within a transaction, because then nobody could write."""

    def try_pause() -> bool:
        worker.signal(signal.SIGSTOP)
        with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=1)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                worker.signal(signal.SIGCONT)
                return False
        return True

    wait_until(try_pause, "the worker to stop between two transactions")


def commits(table: Table) -> list[str | None]:
    return [info.operation for info in DeltaTable.open(table.uri).history()]


def test_a_job_commits_and_its_version_is_mirrored(table, start_worker):
    start_worker("light")
    job = wait_for_end(set_property(table))
    assert (job.state, job.committed_version) == (Job.State.SUCCEEDED, 1)
    table.refresh_from_db()
    assert (table.version, table.properties["team"]) == (1, "sales")
    attempt = job.attempt_rows.get()
    assert (attempt.outcome, attempt.read_version, attempt.attempted_version) == ("committed", 0, 1)
    assert table.commits.get(version=1).txn_id == str(job.txn_id)
    stages = attempt.stages.values_list("name", "core_ms")
    steps = ("start", "read the table", "check", "commit", "sync")
    assert list(stages) == [(step, None) for step in steps]


def test_a_worker_that_ends_in_order_removes_its_report(table, start_worker):
    worker = start_worker("light")
    wait_until(WorkerReport.objects.filter(queue="light", cores=None).exists, "a report")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: not WorkerReport.objects.exists(), "the report to go")


def test_the_waits_of_a_rehearsed_conflict_are_steps_of_their_own(table, start_worker):
    winner = set_property(table, "winner")
    waiting = another_active_job(table, commit_after=winner)
    start_worker("light")
    waits(winner)
    Job.objects.filter(pk=waiting.pk).update(progress_stage=HOLDING)
    announce_end(waiting.pk)
    wait_for_end(winner)
    held = set_property(table, "held", commit_after=waiting)
    holds(held)
    end(waiting)
    wait_for_end(held)
    before, after = ["start", "read the table", "check"], ["commit", "sync"]
    assert step_names(winner) == [*before, WAITING, *after]
    assert step_names(held) == [*before, HOLDING, *after]


def test_a_worker_killed_before_its_commit_leaves_a_job_that_runs_again_once(table, start_worker):
    first = start_worker("light")
    other = another_active_job(table)
    job = set_property(table, commit_after=other)
    holds(job)
    first.kill()
    assert commits(table) == ["CREATE TABLE"]
    sweep_until_requeued(job)
    end(other)
    start_worker("light")
    job = wait_for_end(job)
    assert (job.state, job.attempts) == (Job.State.SUCCEEDED, 2)
    assert commits(table) == ["SET TBLPROPERTIES", "CREATE TABLE"]


def test_a_worker_killed_after_its_commit_leaves_a_job_that_recognizes_it(table, start_worker):
    job = Job(table=table, kind="set_properties", parameters={"properties": {"team": "sales"}})
    job.queue, job.base_version, job.attempts = "light", 0, 1
    job.save(force_insert=True)
    run(command_of(job), DeltaTable.open(table.uri), None, txn_id=str(job.txn_id))
    start_worker("light")
    send_job(job.pk)
    job = wait_for_end(job)
    assert (job.state, job.committed_version) == (Job.State.SUCCEEDED, 1)
    assert commits(table) == ["SET TBLPROPERTIES", "CREATE TABLE"]


def test_a_landed_command_that_no_longer_fits_its_table_is_recognized(table, start_worker):
    uri, column = table.uri, DeltaTable.open(table.uri).snapshot().schema.names[0]
    run(SetProperties(properties={"delta.columnMapping.mode": "name"}), DeltaTable.open(uri), None)
    job = Job(table=table, kind="alter_rename_column")
    job.parameters = {"column": column, "new_name": "renamed"}
    job.queue, job.base_version, job.attempts = "light", 1, 1
    job.save(force_insert=True)
    run(command_of(job), DeltaTable.open(uri), None, txn_id=str(job.txn_id))
    refresh_table(table)
    start_worker("light")
    send_job(job.pk)
    job = wait_for_end(job)
    assert (job.state, job.committed_version) == (Job.State.SUCCEEDED, 2)


def test_a_worker_paused_past_its_lease_neither_commits_nor_writes_to_the_row(table, start_worker):
    first = start_worker("light")
    other = another_active_job(table)
    job = set_property(table, commit_after=other)
    holds(job)
    pause(first)
    sweep_until_requeued(job)
    end(other)
    start_worker("light")
    job = wait_for_end(job)
    first.signal(signal.SIGCONT)
    wait_until(lambda: "this worker stops" in first.log.read_text(), "the first worker to give up")
    again = Job.objects.get(pk=job.pk)
    assert (again.state, again.worker, again.fence) == (Job.State.SUCCEEDED, job.worker, job.fence)
    assert commits(table) == ["SET TBLPROPERTIES", "CREATE TABLE"]


def test_a_message_delivered_twice_runs_once(table, start_worker):
    job = set_property(table)
    for _ in range(5):
        send_job(job.pk)
    start_worker("light")
    job = wait_for_end(job)
    marker = wait_for_end(set_property(table, "after"))
    assert marker.state == Job.State.SUCCEEDED
    assert job.attempt_rows.count() == 1
    assert len(commits(table)) == 3


def test_a_cancelled_job_stops_before_its_commit(table, start_worker):
    start_worker("light")
    job = set_property(table, commit_after=another_active_job(table))
    holds(job)
    cancel_job(job, None)
    job = wait_for_end(job)
    assert job.state == Job.State.CANCELLED
    assert job.attempt_rows.get().outcome == JobAttempt.Outcome.CANCELLED
    assert commits(table) == ["CREATE TABLE"]


def test_a_job_is_stopped_at_its_time_limit(table, start_worker):
    start_worker("light")
    job = wait_for_end(set_property(table, commit_after=another_active_job(table), time_limit_s=1))
    assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_TIME_LIMIT")
    assert job.error_facts["time_limit_s"] == 1
    assert job.attempt_rows.get().outcome == JobAttempt.Outcome.FAILED
    assert job.events.filter(level="warning", message__contains="time limit of 1 s").exists()
    assert commits(table) == ["CREATE TABLE"]


def test_a_job_requested_while_the_broker_was_down_runs_when_it_is_back(
    table, start_worker, broker
):
    point_celery_to("redis://127.0.0.1:1/0")
    job = set_property(table)
    job.refresh_from_db()
    assert (job.state, job.sent_at) == (Job.State.QUEUED, None)
    point_celery_to(broker)
    start_worker("light")
    sweep_leases()
    assert wait_for_end(job).state == Job.State.SUCCEEDED


def test_two_jobs_that_are_made_to_meet_conflict_with_both_sides_recorded(table, start_worker):
    start_worker("light")
    winner, loser = _collide(table)
    assert winner.state == Job.State.SUCCEEDED
    assert (loser.state, loser.error_code) == (Job.State.CONFLICTED, "DELTA_METADATA_CHANGED")
    conflict = Conflict.objects.get(job=loser)
    assert conflict.exception == "MetadataChangedException"
    assert (conflict.read_version, conflict.winning_version) == (0, 1)
    assert (conflict.current_operation, conflict.winner_operation) == ("SET TBLPROPERTIES",) * 2
    attempt = JobAttempt.objects.get(job=loser)
    assert conflict.wasted_ms == cost_of([attempt]).wasted.wall_ms > 0
    (met,) = conflict.facts["decision"]["winners"]
    assert (met["version"], met["verdicts"]["protocol_changed"]) == (1, "none")
    assert (met["verdicts"]["metadata_changed"], met["verdicts"]["data_added"]) == (
        "conflict",
        "not reached",
    )
    assert loser.attempt_rows.get().outcome == JobAttempt.Outcome.CONFLICTED


def test_a_retry_that_succeeds_keeps_the_conflict_it_had(table, start_worker):
    start_worker("light")
    _, loser = _collide(table, retries=2)
    assert (loser.state, loser.committed_version) == (Job.State.SUCCEEDED, 2)
    outcomes = list(loser.attempt_rows.values_list("outcome", flat=True))
    assert outcomes == [JobAttempt.Outcome.CONFLICTED, JobAttempt.Outcome.COMMITTED]
    assert Conflict.objects.filter(job=loser, kind=Conflict.Kind.ABORTED).count() == 1


def test_a_dry_run_of_vacuum_needs_no_spark_and_shows_its_plan(table, start_worker, lake):
    Path(lake / "lake/orders/stray.parquet").write_bytes(b"x")
    start_worker("reads")
    job = wait_for_end(
        request_job(table=table, kind="vacuum", parameters={}, requested_by=None, dry_run=True)
    )
    assert (job.state, job.committed_version) == (Job.State.SUCCEEDED, None)
    assert "summary" in job.plan


def _collide(table: Table, retries: int = 0) -> tuple[Job, Job]:
    with transaction.atomic():  # no worker begins the one before the other is there
        winner = set_property(table, "winner")
        loser = set_property(table, "loser", commit_after=winner, retries=retries)
    return wait_for_end(winner), wait_for_end(loser)
