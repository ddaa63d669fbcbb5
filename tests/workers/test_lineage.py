"""Lineage of real jobs and reported transactions, as a server receives it."""

import fcntl
import json
import os
import resource
import signal
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from django.core.checks.registry import registry
from django.utils import timezone

from engine.commands.sql import parse_statement
from engine.operations.run import run as run_command
from engine.schema.types import LONG, StructField, StructType
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.registration import register_table
from lakeui.conflicts.models import Pipeline, PipelineTransaction
from lakeui.conflicts.unregistration import unregister_table
from lakeui.jobs.cancel_retry import cancel_job, retry_job
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.requests import request_job
from lakeui.monitoring.alerting.webhooks import DeliveryError
from lakeui.monitoring.deliveries import LINEAGE_KEPT
from lakeui.monitoring.lineage.events import events_of_job, name_of
from lakeui.monitoring.lineage.outbox import append, check_lineage, deliver
from lakeui.monitoring.lineage.rounds import GRACE, note
from lakeui.monitoring.models import LineageEvent
from tests.engine.made_tables import write_commit, write_first, write_rows
from tests.lakeui.factories import make_job, make_user
from tests.lakeui.monitoring.lineage_schema import check_schema, check_types, first_document
from tests.lakeui.monitoring.webhook_server import run_hanging_webhook, run_webhook
from workers import jobs
from workers.periodic_tasks import forget_spent_rows, note_lineage

pytestmark = pytest.mark.django_db
runs_jobs = pytest.mark.django_db(transaction=True)


@pytest.fixture
def collector(settings):
    with run_webhook() as hook:
        settings.LINEAGE_URL = hook.url.removesuffix("/hook/a-secret-path")
        settings.LINEAGE_API_KEY = "the-key"
        settings.LINEAGE_NAMESPACE = "prod"
        yield hook


@pytest.fixture
def orders(lake):
    return register_new_table(lake, "orders")


def register_new_table(lake, name):
    store = open_store(str(lake / "lake" / name))
    write_first(store, StructType((StructField("n", LONG),)))
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    write_commit(store, 1, write_rows(store, "a.parquet", rows))
    return register_table(str(lake / "lake" / name), f"sales.{name}")


def delete(table, where="n = 2", **fields):
    job = request_job(table=table, kind="delete", parameters={"where": where}, requested_by=None)
    Job.objects.filter(pk=job.pk).update(**fields)
    return job


def create_ended_job(table, **fields):
    """Create the job that wrote version 1."""
    now = timezone.now()
    given = {"state": Job.State.SUCCEEDED, "committed_version": 1, "finished_at": now}
    return make_job(table, kind="delete", parameters={"where": "n = 2"}, **(given | fields))


def run(job):
    jobs.run_job.apply(args=[str(job.pk)])
    job.refresh_from_db()
    return job


def run_round(hook, at=None):
    """Return the events that a round records and sends, each checked by the client's classes."""
    now = at or timezone.now()
    note(now)
    deliver(lambda: now)
    events = [json.loads(body) for body in hook.bodies]
    for event in events:
        check_types(event)
    return events


def events_of_run(events, run_id):
    return {event["eventType"]: event for event in events if event["run"]["runId"] == str(run_id)}


@runs_jobs
def test_a_job_is_reported_from_its_start_to_the_version_it_wrote(collector, orders):
    job = run(delete(orders))
    assert job.state == Job.State.SUCCEEDED, job.error_message
    events = events_of_run(run_round(collector), job.pk)
    assert set(events) == {"START", "COMPLETE"}
    end = events["COMPLETE"]
    assert end["job"]["namespace"] == "prod"
    assert end["job"]["name"] == events["START"]["job"]["name"] == "sales.orders.delete"
    assert end["job"]["facets"]["sql"]["query"] == job.statement
    (read,), (written,) = end["inputs"], end["outputs"]
    assert (read["namespace"], read["name"]) == ("file", orders.uri)
    assert read["facets"]["version"]["datasetVersion"] == "1"
    assert written["facets"]["version"]["datasetVersion"] == "2"
    (column,) = written["facets"]["schema"]["fields"]
    assert (column["name"], column["type"]) == ("n", "long")
    wrote = written["outputFacets"]["outputStatistics"]
    commit = orders.commits.get(version=2)
    assert (wrote["size"], wrote["fileCount"]) == (commit.bytes_written, 1)
    (symlink,) = written["facets"]["symlinks"]["identifiers"]
    assert symlink == {"namespace": "prod", "name": "sales.orders", "type": "TABLE"}
    assert "version" not in events["START"]["outputs"][0]["facets"]
    assert collector.sent[0]["authorization"] == "Bearer the-key"


def test_each_event_is_sent_once_in_any_number_of_rounds(collector, orders):
    job = create_ended_job(orders)
    first = run_round(collector)
    run_round(collector)
    assert len(run_round(collector)) == len(first) == 2
    assert set(LineageEvent.objects.values_list("outcome", flat=True)) == {"delivered"}
    assert set(LineageEvent.objects.values_list("job", flat=True)) == {job.pk}


@runs_jobs
def test_a_run_keeps_its_id_over_attempts(collector, orders):
    job = delete(orders)
    Job.objects.filter(pk=job.pk).update(state=Job.State.RUNNING, started_at=timezone.now())
    run_round(collector)
    JobAttempt.objects.create(
        job=job, number=1, started_at=timezone.now(), outcome=JobAttempt.Outcome.LOST
    )
    Job.objects.filter(pk=job.pk).update(state=Job.State.QUEUED, attempts=1)
    run_round(collector)
    run(job)
    events = run_round(collector)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert {event["run"]["runId"] for event in events} == {str(job.pk)}


@runs_jobs
def test_a_failure_is_reported_with_its_code(collector, orders):
    failed = run(delete(orders, parameters={"where": "nowhere = 1"}))
    assert failed.state == Job.State.FAILED
    end = events_of_run(run_round(collector), failed.pk)["FAIL"]
    error = end["run"]["facets"]["errorMessage"]["message"]
    assert error == f"{failed.error_code}: {failed.error_message}"
    assert "version" not in end["outputs"][0]["facets"]


def test_a_long_message_of_an_error_is_cut_as_over_rest(collector, orders):
    long = {"error_code": "LAKE_SPARK_JOB_FAILED", "error_message": "x" * 1_000_000}
    job = create_ended_job(orders, state=Job.State.FAILED, committed_version=None, **long)
    run_round(collector)
    end = events_of_run(run_round(collector), job.pk)["FAIL"]
    assert len(end["run"]["facets"]["errorMessage"]["message"]) == 2_000


@runs_jobs
def test_a_job_cancelled_in_the_queue_is_aborted_and_its_rerun_names_it(collector, orders):
    job = delete(orders)
    cancel_job(job, None)
    job.refresh_from_db()
    again = run(retry_job(job, None))
    assert again.state == Job.State.SUCCEEDED, again.error_message
    events = run_round(collector)
    assert set(events_of_run(events, job.pk)) == {"START", "ABORT"}
    parent = events_of_run(events, again.pk)["COMPLETE"]["run"]["facets"]["parent"]
    assert parent["run"]["runId"] == str(job.pk)
    assert parent["job"]["name"] == "sales.orders.delete"


def test_a_dry_run_writes_nothing(collector, orders):
    job = create_ended_job(orders, dry_run=True)
    assert events_of_run(run_round(collector), job.pk)["COMPLETE"]["outputs"] == []


def test_secrets_in_a_statement_stay_here(collector, orders):
    secret = "AKIAIOSFODNN7EXAMPLE"
    job = make_job(
        orders,
        state=Job.State.FAILED,
        finished_at=timezone.now(),
        statement="COPY INTO t FROM 's3://key:hunter2@bucket/x'",
        error_code="X",
        error_message=f"aws_secret_access_key={secret} Bearer lake_{'a' * 60}",
    )
    event = events_of_run(run_round(collector), job.pk)["FAIL"]
    text = json.dumps(event)
    assert "hunter2" not in text
    assert secret not in text
    assert "a" * 60 not in text


@runs_jobs
def test_the_steps_of_a_script_are_runs_below_it(collector, orders, lake):
    register_new_table(lake, "people")
    sql = (
        "ALTER TABLE sales.orders SET TBLPROPERTIES ('team' = 'a'); ALTER TABLE sales.people "
        "SET TBLPROPERTIES ('team' = 'b')"
    )
    job = run(request_job(table=orders, sql=sql, requested_by=None))
    assert job.state == Job.State.SUCCEEDED, job.error_message
    events = run_round(collector)
    whole = events_of_run(events, job.pk)["COMPLETE"]
    names = {Path(found["name"]).name: found["facets"]["version"] for found in whole["outputs"]}
    assert {name: facet["datasetVersion"] for name, facet in names.items()} == {
        "orders": "2",
        "people": "2",
    }
    steps = [event for event in events if ".step-" in event["job"]["name"]]
    assert [event["eventType"] for event in steps].count("COMPLETE") == 2
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in steps} == {str(job.pk)}


def test_tables_that_a_command_reads_beside_its_own_are_inputs(orders, lake):
    people = register_new_table(lake, "people")
    job = make_job(
        orders,
        kind="append",
        parameters={"source": {"kind": "table", "table": "sales.people"}},
    )
    gone = make_job(
        orders,
        kind="append",
        parameters={"source": {"kind": "table", "table": "s3://away/never"}},
    )
    files = make_job(
        orders,
        kind="append",
        parameters={
            "source": {"kind": "files", "uri": str(lake / "uploads/x.csv"), "format": "csv"}
        },
    )
    names = [events_of_job(each)[0].as_json()["inputs"] for each in (job, gone, files)]
    assert [found["name"] for found in names[0]] == [people.uri]
    assert (names[1][0]["namespace"], names[1][0]["name"]) == ("s3://away", "never")
    assert [found["name"] for found in names[2]] == [str(lake / "uploads/x.csv")]


def transaction(table, **fields):
    now = timezone.now()
    pipeline, _ = Pipeline.objects.get_or_create(
        name="nightly", defaults={"first_seen_at": now, "last_seen_at": now}
    )
    given = {
        "txn_id": "t1",
        "reported_at": now,
        "started_at": now,
        "ended_at": now,
        "read_version": 0,
        "statement": "DELETE FROM sales.orders",
        "engine": "Spark",
    }
    return PipelineTransaction.objects.create(pipeline=pipeline, table=table, **(given | fields))


def test_a_reported_transaction_names_its_outputs(collector, orders):
    row = transaction(orders, state="committed", committed_version=1)
    start, end = run_round(collector)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert end["job"]["name"] == "sales.orders.nightly"
    assert end["inputs"][0]["facets"]["version"]["datasetVersion"] == "0"
    (written,) = end["outputs"]
    assert written["facets"]["version"]["datasetVersion"] == "1"
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert set(LineageEvent.objects.values_list("transaction", flat=True)) == {row.pk}


def test_attempts_at_a_command_are_one_run_that_ends_once(collector, orders):
    now = timezone.now()
    transaction(orders, state="aborted", run_id="r", attempt=1)
    assert run_round(collector) == []  # the next attempt may come
    transaction(orders, state="committed", run_id="r", attempt=2, txn_id="t2", committed_version=1)
    events = run_round(collector, now + GRACE + timedelta(seconds=5))
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]


def test_a_transaction_that_was_not_retried_failed(collector, orders):
    transaction(orders, state="aborted", run_id="r")
    events = run_round(collector, timezone.now() + GRACE + timedelta(seconds=5))
    assert [event["eventType"] for event in events] == ["START", "FAIL"]
    assert "aborted" in events[1]["run"]["facets"]["errorMessage"]["message"]


def test_a_commit_waits_a_little_for_the_mirror(collector, orders):
    transaction(orders, state="committed", committed_version=7)
    assert run_round(collector) == []
    late = run_round(collector, timezone.now() + GRACE + timedelta(seconds=5))
    assert late[1]["outputs"][0]["facets"]["version"]["datasetVersion"] == "7"


def test_a_server_that_errs_gets_each_event_later(collector, orders):
    collector.statuses = [500, 200]
    create_ended_job(orders)
    now = timezone.now()
    run_round(collector, now)
    waiting = LineageEvent.objects.get(tries=1, outcome="waiting")
    assert waiting.error == "answered 500"
    run_round(collector, now + timedelta(minutes=2))
    assert not LineageEvent.objects.exclude(outcome="delivered").exists()
    ids = [
        (event["run"]["runId"], event["eventType"]) for event in map(json.loads, collector.bodies)
    ]
    assert len(ids) == 3
    assert len(set(ids)) == 2


@runs_jobs
def test_a_server_that_hangs_or_is_not_there_costs_a_job_nothing(orders, settings):
    settings.LINEAGE_TIMEOUT_SECONDS = 0.2
    with run_hanging_webhook() as url:
        settings.LINEAGE_URL = url
        assert run(delete(orders)).state == Job.State.SUCCEEDED
        note(timezone.now())
        assert deliver() == 0
    settings.LINEAGE_URL = "http://127.0.0.1:9"
    assert deliver() == 0
    errors = set(LineageEvent.objects.exclude(error="").values_list("error", flat=True))
    assert errors == {"no answer within 0.2 s", "Connection refused"}


def test_events_are_given_up_in_the_end_and_forgotten(orders, settings):
    settings.LINEAGE_URL = "http://127.0.0.1:9"
    create_ended_job(orders)
    now = timezone.now()
    note(now)
    late = now + timedelta(hours=24)
    assert [deliver(lambda: late), deliver(lambda: late)] == [0, 0]
    assert set(LineageEvent.objects.values_list("outcome", flat=True)) == {"given_up"}
    LineageEvent.objects.update(created_at=now - LINEAGE_KEPT - timedelta(hours=1))
    forget_spent_rows()
    assert not LineageEvent.objects.exists()


def test_characters_that_postgresql_refuses_in_a_comment_hold_no_event_up(collector, lake):
    store = open_store(str(lake / "lake" / "odd"))
    write_first(store, StructType((StructField("n", LONG, metadata={"comment": "a\0b"}),)))
    rows = pa.table({"n": pa.array([1], pa.int64())})
    write_commit(store, 1, write_rows(store, "a.parquet", rows))
    change_metadata = parse_statement("ALTER TABLE t SET TBLPROPERTIES ('team' = 'x')")
    run_command(change_metadata, DeltaTable(store), None)
    create_ended_job(register_table(str(lake / "lake" / "odd"), "sales.odd"))
    note(timezone.now())
    said = [json.dumps(event.content) for event in LineageEvent.objects.all()]
    assert any("a\\ufffdb" in text for text in said)
    assert not any("\\u0000" in text for text in said)


def test_a_file_gets_a_line_an_event(orders, settings, tmp_path):
    settings.LINEAGE_URL = (tmp_path / "lineage events.ndjson").as_uri()
    job = create_ended_job(orders)
    note(timezone.now())
    assert deliver() == 2
    lines = (tmp_path / "lineage events.ndjson").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert set(events_of_run(events, job.pk)) == {"START", "COMPLETE"}


@pytest.mark.parametrize("place", ["/dev/full", "/proc/version", "/no/such/directory/file"])
def test_a_file_that_cannot_be_written_is_tried_again(orders, settings, place):
    settings.LINEAGE_URL = f"file://{place}"
    create_ended_job(orders)
    note(timezone.now())
    assert deliver() == 0
    waiting = LineageEvent.objects.get(tries=1)
    assert waiting.error.startswith("the file cannot be written")
    assert waiting.outcome == "waiting"


def test_a_line_truncated_by_a_full_disk_is_removed_again(tmp_path):
    """A limit on the process's file size simulates the full disk."""
    target = tmp_path / "events"
    target.write_bytes(b"{}\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(DeliveryError, match="a part of the event"):
            append(str(target), b"x" * 500 + b"\n", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert target.read_bytes() == b"{}\n"


@pytest.mark.timeout(20)
def test_a_pipe_without_a_reader_delays_no_worker(orders, settings, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    settings.LINEAGE_URL = (tmp_path / "pipe").as_uri()
    create_ended_job(orders)
    note(timezone.now())
    assert deliver() == 0
    assert "not a regular file" in LineageEvent.objects.get(tries=1).error


@pytest.mark.timeout(20)
def test_a_file_that_another_program_keeps_locked_is_tried_again(orders, settings, tmp_path):
    settings.LINEAGE_URL = (tmp_path / "events").as_uri()
    settings.LINEAGE_TIMEOUT_SECONDS = 0.1
    create_ended_job(orders)
    now = timezone.now()
    note(now)
    with (tmp_path / "events").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert deliver() == 0
    assert "has it locked" in LineageEvent.objects.get(tries=1).error
    assert deliver(lambda: now + timedelta(minutes=1)) == 2


def test_a_line_that_a_killed_worker_left_unfinished_spoils_no_other(tmp_path):
    target = tmp_path / "events"
    target.write_bytes(b'{"whole": 1}\n{"half')
    append(str(target), b'{"next": 1}\n', 1)
    append(str(target), b'{"last": 1}\n', 1)
    lines = target.read_bytes().splitlines()
    assert lines == [b'{"whole": 1}', b'{"half', b'{"next": 1}', b'{"last": 1}']


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/x", "not an http:// or https://"),
        ("http://ann:secret@host", "a user name or a password"),
        ("file://elsewhere/x", "does not name a file on this machine"),
        ("file:///", "does not name a file on this machine"),
        ("marquez:5000", "not an http:// or https://"),
    ],
)
def test_a_wrong_address_is_reported_before_anything_runs(settings, url, words):
    settings.LINEAGE_URL = url
    assert check_lineage in registry.get_checks()
    (problem,) = check_lineage()
    assert words in problem.msg
    assert "secret" not in problem.msg


def test_nothing_is_noted_where_no_address_is_set(orders):
    create_ended_job(orders)
    note_lineage()
    assert not LineageEvent.objects.exists()


def test_an_unregistered_table_removes_its_events(collector, orders):
    create_ended_job(orders)
    run_round(collector)
    unregister_table(orders, make_user("ann", None, is_superuser=True))
    assert not LineageEvent.objects.exists()


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/orders", ("file", "/lake/orders")),
        ("file:///lake/orders", ("file", "/lake/orders")),
        ("s3a://bucket/a/b/", ("s3://bucket", "a/b")),
        ("s3://bucket", ("s3://bucket", "/")),
        ("gs://bucket/a", ("gs://bucket", "a")),
        ("abfss://box@acme.dfs.core.windows.net/a", ("abfss://box@acme.dfs.core.windows.net", "a")),
        ("az://box/a/b", ("abfss://box@acme.dfs.core.windows.net", "a/b")),
        ("az://other/a", ("az://other", "a")),
        ("s3://key:secret@bucket/a", ("s3://bucket", "a")),
    ],
)
def test_datasets_are_named_as_the_specification_has_it(settings, uri, expected):
    settings.TABLE_STORAGE_OPTIONS = {"az://box": {"account_name": "acme"}}
    assert name_of(uri) == expected


@runs_jobs
def test_events_fit_the_specifications_own_schema(collector, orders, lake):
    """Each event names its documents; the test is skipped with a message if they cannot be fetched."""
    try:
        first_document()
    except OSError as error:
        pytest.skip(f"the specification of OpenLineage cannot be fetched: {error}")
    run(delete(orders))
    run(delete(orders, parameters={"where": "nowhere = 1"}))
    cancelled = delete(orders)
    cancel_job(cancelled, None)
    cancelled.refresh_from_db()
    run(retry_job(cancelled, None))
    transaction(orders, state="committed", committed_version=1)
    for event in run_round(collector):
        check_schema(event)
