"""Forecasts for a job agree with the conflict checks, because they share the rules."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engine.conflict_facts import Verdict
from lakeui.jobs.models import Job, JobAttempt, Schedule
from lakeui.monitoring.outlook import forecast_of, outlook_of
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.factories import make_commit, make_conflict, make_table
from tests.lakeui.people import make_job
from tests.lakeui.people import make_table as small_table

pytestmark = pytest.mark.django_db
LEVELS = ("WriteSerializable", "Serializable")
PLAIN = {"partition_columns": [], "clustering_columns": [], "row_tracking": False}
ROWS = {"source": {"kind": "rows", "columns": ["order_id"], "rows": [[1]]}}
ONE_ROW = {"where": "order_id = 1"}


def table_of(**fields):
    return make_table(**PLAIN | {"deletion_vectors": True, "version": 5} | fields)


def outlook(table, kind, parameters=None, *, landed=None, **commit):
    """Return the outlook of a job that read version 4, after a version 5."""
    if landed is not None:
        make_commit(table, 5, landed, **commit)
    job = make_job(table, kind=kind, parameters=parameters or {}, state=Job.State.RUNNING)
    job.attempt_rows.all().delete()
    attempt = JobAttempt.objects.create(
        job=job, number=1, started_at=timezone.now(), read_version=4
    )
    expected = outlook_of(job, attempt)
    assert expected is not None
    return expected


@pytest.mark.parametrize("level", LEVELS)
def test_an_insert_commits_whatever_a_restore_did(level):
    table = table_of(isolation_level=level)
    result = outlook(table, "append", ROWS, landed="RESTORE", is_blind_append=False)
    assert (result.verdict, result.is_open) == (Verdict.NEVER, False)


@pytest.mark.parametrize("level", LEVELS)
def test_optimize_passes_every_delete_where_it_can_be_followed(level):
    table = table_of(isolation_level=level)
    result = outlook(table, "optimize", landed="DELETE", predicate="order_id = 1")
    assert result.verdict is Verdict.NEVER
    without = make_table("plain", **PLAIN | {"deletion_vectors": False, "version": 5})
    assert outlook(without, "optimize", landed="DELETE").verdict is Verdict.SAME_FILES


def test_a_clustered_table_without_row_tracking_cannot_be_followed():
    table = table_of(clustering_columns=["order_id"])
    assert outlook(table, "delete", ONE_ROW, landed="OPTIMIZE").verdict is Verdict.SAME_FILES
    table.row_tracking = True
    assert outlook(table, "delete", ONE_ROW).verdict is Verdict.NEVER


def test_conditions_on_different_rows_or_partitions_do_not_conflict():
    table = table_of()
    [landed] = outlook(table, "delete", ONE_ROW, landed="DELETE", predicate="(order_id = 2)").landed
    assert (landed.verdict, landed.forecast.why) == (
        Verdict.NEVER,
        "no row matches both conditions",
    )
    parted = make_table(
        "parted",
        **PLAIN | {"partition_columns": ["order_date"], "deletion_vectors": False, "version": 5},
    )
    where = {"where": "order_date = DATE '2026-11-18'"}
    [landed] = outlook(
        parted, "delete", where, landed="DELETE", predicate="order_date = '2026-11-19'"
    ).landed
    assert landed.forecast.why == "the conditions select different partitions"


def test_an_append_from_another_table_reads_nothing_of_its_own():
    table = table_of(isolation_level="Serializable")
    query = {"source": {"kind": "query", "query": "SELECT * FROM other"}}
    assert outlook(table, "append", query, landed="DELETE").verdict is Verdict.NEVER
    own = {"source": {"kind": "query", "query": "SELECT * FROM sales.orders"}}
    assert outlook(table, "append", own).verdict is Verdict.SAME_ROW


def test_a_waiting_job_is_not_said_to_run():
    table = table_of()
    for state in (Job.State.QUEUED, Job.State.RUNNING):
        make_job(table, kind="delete", parameters=ONE_ROW, state=state)
    coming = {write.waits for write in outlook(table, "delete", ONE_ROW).coming}
    assert coming == {True, False}


@pytest.mark.parametrize(
    ("kind", "parameters", "verdict"),
    [
        ("vacuum", {}, Verdict.NEVER),
        ("append", ROWS, Verdict.EXEMPT),
        ("alter_cluster_by", {"columns": ["order_date"]}, Verdict.NEVER),
        ("set_properties", {"properties": {"a": "b"}}, Verdict.ALWAYS),
        ("restore", {"version": 1}, Verdict.SAME_FILES),
        ("truncate", {}, Verdict.ALWAYS),
        ("delete", {"where": "order_id = 2"}, Verdict.NEVER),
        ("update", {"assignments": {"customer_id": "1"}, "where": "order_id = 2"}, Verdict.NEVER),
        ("update", {"assignments": {"order_id": "1"}, "where": "order_id = 2"}, Verdict.SAME_ROW),
        ("script", {"steps": [{"kind": "vacuum", "parameters": {}},
                              {"kind": "truncate", "parameters": {}}]}, Verdict.ALWAYS),
        ("script", {"steps": [{"kind": "truncate", "parameters": {"table": "elsewhere"}}]},
         Verdict.NEVER),
    ],
)  # fmt: skip
def test_schedules_that_are_due_count_in_the_outlook_of_a_job(
    django_user_model, kind, parameters, verdict
):
    table = table_of(clustering_columns=["order_id"], row_tracking=True)
    Schedule.objects.create(
        name="nightly", table=table, cron="0 3 * * *", kind=kind, parameters=parameters,
        owner=django_user_model.objects.create(username="owner"),
        next_due_at=timezone.now() + timedelta(minutes=9),
    )  # fmt: skip
    [due] = forecast_of(table, "delete", ONE_ROW).coming
    assert (due.verdict, bool(due.forecast.why)) == (verdict, True)


def test_the_record_of_a_pair_stands_beside_the_forecast():
    table = table_of()
    make_conflict(table, current_operation="DELETE", winner_operation="UPDATE", file_count=3)
    [landed] = outlook(table, "delete", ONE_ROW, landed="UPDATE", predicate="").landed
    assert (landed.verdict, landed.record.aborted, landed.record.files) == (Verdict.SAME_ROW, 1, 3)


@pytest.mark.parametrize(("part", "verdict"), [("b", Verdict.NEVER), ("a", Verdict.SAME_FILES)])
def test_the_files_of_a_version_prove_that_a_job_passes_it(part, verdict):
    """The MERGE does not record its rows, but its files lie in partition a."""
    table = replayable(small_table(isolation_level="Serializable"), operation="MERGE")
    table.commits.filter(version=2).update(operation="MERGE")
    job = make_job(
        table, kind="delete", parameters={"where": f"part = '{part}'"}, state=Job.State.RUNNING
    )
    attempt = job.attempt_rows.get()
    attempt.read_version = 1
    result = outlook_of(job, attempt)
    assert result is not None
    assert result.verdict is verdict
