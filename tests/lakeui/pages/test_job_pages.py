"""Requesting a job, watching it, cancelling it and retrying it."""

import gc
import json
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import RequestFactory, override_settings
from django.urls import resolve
from django.utils import timezone
from django.utils.html import escape

from engine.commands.model import COMMANDS
from engine.commands.sql import parse_request
from lakeui import event_streams
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.command_rules import check_command
from lakeui.jobs.models import Job, JobAttempt, JobEvent, JobStage, Schedule
from lakeui.jobs.timeline import HOLDING
from lakeui.pages.jobs import streams
from lakeui.pages.jobs.job_context import readable_metrics
from lakeui.pages.jobs.job_form import examples_for
from lakeui.pages.jobs.run_steps import steps_of, task_field
from tests.engine.commands.statements import TRANSACTIONS
from tests.lakeui.factories import make_conflict, make_job

HTMX = {"headers": {"HX-Request": "true"}}


def new(client, table, **fields):
    return client.post("/jobs/new/", {"table": table.pk, "kind": "sql"} | fields)


@pytest.mark.parametrize(
    "kind", [kind for kind in COMMANDS if kind not in {"create", "script", "transaction"}]
)
def test_every_kind_of_job_has_a_form(client_for, lake, kind):
    response = client_for("owner").get(f"/jobs/new/?table={lake.table.pk}&kind={kind}")
    assert response.status_code == 200
    body = response.content.decode()
    assert COMMANDS[kind].label in body
    assert "Show what it does" in body
    for declared in COMMANDS[kind].list_parameters():
        if declared.name not in {"table", "alias"}:
            assert declared.label.replace("'", "&#x27;") in body


def test_a_hint_names_choices_as_the_list_does(client_for, lake):
    body = client_for("owner").get(f"/jobs/new/?table={lake.table.pk}&kind=merge").content.decode()
    assert "as table follows delta.autoOptimize.autoCompact" in body
    assert '<option value="as_table"' in body


def test_a_statement_is_shown_as_it_was_understood(client_for, lake):
    body = new(
        client_for("owner"), lake.table, step="check", sql="optimize sales.orders"
    ).content.decode()
    assert "statement recognized" in body
    assert "OPTIMIZE sales.orders" in body
    assert not Job.objects.exclude(pk=lake.job.pk).exists()


def test_htmx_gets_the_fragment_alone(client_for, lake):
    response = client_for("owner").post(
        "/jobs/new/",
        {"table": lake.table.pk, "kind": "sql", "sql": "OPTIMIZE sales.orders"},
        **HTMX,
    )
    body = response.content.decode()
    assert "statement recognized" in body
    assert "<html" not in body


def test_the_page_lists_the_functions_that_statements_may_use(client_for, lake):
    body = client_for("owner").get(f"/jobs/new/?table={lake.table.pk}").content.decode()
    for name in ("date_trunc", "current_timestamp", "xxhash64"):
        assert f"<code>{name}</code>" in body


def test_a_statement_with_a_fault_shows_where(client_for, lake):
    body = new(
        client_for("owner"), lake.table, step="check", sql="OPTIMISE sales.orders"
    ).content.decode()
    assert "Not understood" in body
    assert "LAKE_STATEMENT_NOT_UNDERSTOOD" in body


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("DELETE FROM sales.orders WHERE order = 1", "order = 1"),
        ("UPDATE sales.orders SET status = 'x' order_id = 5", "order_id = 5"),
        ("VACUUM sales.orders; DELETE FROM sales.orders WHERE order_id = :id", ":id"),
        ("DELETE FROM sales.orders WHERE order_id IN (SELECT 7)", "SELECT 7)"),
    ],
)
def test_the_mark_begins_at_the_fault_inside_a_condition(client_for, lake, sql, marked):
    body = new(client_for("owner"), lake.table, step="check", sql=sql).content.decode()
    assert f"<mark>{escape(marked)}</mark>" in body


@pytest.mark.parametrize("sql", TRANSACTIONS)
def test_a_statement_that_opens_a_transaction_names_the_block(client_for, lake, sql):
    body = new(client_for("owner"), lake.table, step="check", sql=sql).content.decode()
    assert "one block, BEGIN ATOMIC" in body


def test_a_statement_that_explains_leads_to_a_dry_run(client_for, lake):
    sql = "EXPLAIN DELETE FROM sales.orders"
    body = new(client_for("owner"), lake.table, step="check", sql=sql).content.decode()
    assert "request a dry run" in body
    assert "Look there" not in body


def test_a_job_is_queued_and_its_page_opened(client_for, lake):
    client = client_for("owner")
    asked = {"sql": "OPTIMIZE sales.orders", "retries": "2", "time_limit": "5"}
    response = new(client, lake.table, step="run", **asked)
    job = Job.objects.exclude(pk=lake.job.pk).get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.max_retries, job.dry_run) == ("optimize", 2, False)
    assert job.time_limit_s == 300
    assert "5 min" in client.get(f"/jobs/{job.pk}/").content.decode()


def test_a_form_becomes_the_parameters_of_the_command(client_for, lake):
    client = client_for("owner")
    body = client.post(
        "/jobs/new/",
        {
            "table": lake.table.pk,
            "kind": "optimize",
            "step": "check",
            "zorder_by": "order_id, status",
        },
    ).content.decode()
    assert "ZORDER BY (order_id, status)" in body
    parameters = {"zorder_by": ["order_id", "status"]}
    new(client, lake.table, kind="optimize", step="run", parameters=json.dumps(parameters))
    job = Job.objects.exclude(pk=lake.job.pk).get()
    assert job.parameters["zorder_by"] == ["order_id", "status"]


def test_a_fault_in_a_form_is_shown_at_its_field(client_for, lake):
    body = (
        client_for("owner")
        .post(
            "/jobs/new/",
            {
                "table": lake.table.pk,
                "kind": "optimize",
                "step": "check",
                "zorder_by": "no_such_column",
            },
        )
        .content.decode()
    )
    assert 'id="id_zorder_by_error"' in body or "Not understood" in body


def test_a_destructive_job_asks_for_the_name_of_the_table(client_for, lake):
    client, sql = client_for("owner"), "DELETE FROM sales.orders"
    refused = new(client, lake.table, step="run", sql=sql, confirm="sales.order")
    assert refused.status_code == 400
    assert "Nothing was queued" in refused.content.decode()
    assert new(client, lake.table, step="run", sql=sql, confirm="sales.orders").status_code == 302


@pytest.mark.parametrize("layout", [{}, {"clustering_columns": [], "deletion_vectors": False}])
def test_every_statement_to_begin_with_is_understood_of_the_table(client_for, lake, layout):
    Table.objects.filter(pk=lake.table.pk).update(**layout)
    table = Table.objects.get(pk=lake.table.pk)
    examples = examples_for(table)
    assert len(examples) == 7
    for example in examples:
        check_command(parse_request(example)[0], table)
        said = new(client_for("owner"), table, step="check", sql=example).content.decode()
        assert "Not understood" not in said, example


def test_a_dry_run_requires_no_name(client_for, lake):
    sql = "DELETE FROM sales.orders WHERE order_id = 1"
    new(client_for("owner"), lake.table, step="dry_run", sql=sql)
    assert Job.objects.exclude(pk=lake.job.pk).get().dry_run


def test_a_statement_that_ends_in_dry_run_is_one_whatever_button_is_pressed(client_for, lake):
    client, sql = client_for("owner"), "VACUUM sales.orders DRY RUN"
    body = new(client, lake.table, step="check", sql=sql).content.decode()
    assert 'value="dry_run"' in body
    assert 'value="run"' not in body
    assert new(client, lake.table, step="run", sql=sql).status_code == 302
    assert Job.objects.exclude(pk=lake.job.pk).get().dry_run


def test_an_earlier_dry_run_of_the_same_is_shown(client_for, lake):
    statement = "DELETE FROM sales.orders WHERE order_id = 1"
    make_job(lake.table, "delete", statement=statement, dry_run=True, plan={"files": 7})
    body = new(client_for("owner"), lake.table, step="check", sql=statement).content.decode()
    assert "A dry run of this statement" in body


def test_an_operator_sees_which_right_a_role_lacks(client_for, lake):
    client = client_for("operator")
    body = new(client, lake.table, step="check", sql="OPTIMIZE sales.orders").content.decode()
    assert "Your role does not allow it" in body
    assert new(client, lake.table, step="run", sql="OPTIMIZE sales.orders").status_code == 400
    assert not Job.objects.exclude(pk=lake.job.pk).exists()


@override_settings(READ_ONLY=True)
def test_read_only_offers_and_accepts_nothing(client_for, lake):
    client = client_for("owner")
    assert "New job" not in client.get(f"/tables/{lake.table.pk}/").content.decode()
    assert new(client, lake.table, step="run", sql="OPTIMIZE sales.orders").status_code == 400


@pytest.mark.parametrize(
    "damaged",
    [{"parameters": "{"}, {"retries": "-1"}, {"retries": "9999"}, {"time_limit": "99999"}],
)
def test_a_damaged_form_queues_nothing(client_for, lake, damaged):
    fields = {"kind": "optimize", "step": "run", "parameters": "{}"} | damaged
    assert new(client_for("owner"), lake.table, **fields).status_code == 400
    assert not Job.objects.exclude(pk=lake.job.pk).exists()


def test_a_file_is_kept_and_becomes_the_source_of_an_append(client_for, lake):
    body = client_for("owner").post(
        "/jobs/new/",
        {
            "table": lake.table.pk, "kind": "append", "step": "check",
            "source.kind": "files", "source.files.file": SimpleUploadedFile("orders.csv", b"order_id\n1\n"),
        },
    ).content.decode()  # fmt: skip
    assert "INSERT INTO" in body
    assert "orders.csv" in body


def test_a_place_without_a_table_is_not_registered(client_for, db, settings):
    response = client_for("owner").post(
        "/tables/register/", {"uri": f"{settings.LAKE_HOME}/nothing"}
    )
    assert response.status_code == 400
    assert not Table.objects.exists()


def test_a_place_outside_the_roots_is_refused(client_for, db):
    response = client_for("owner").post("/tables/register/", {"uri": "/etc"})
    assert response.status_code == 400
    assert "TABLE_ROOTS" in response.content.decode()


def test_a_running_job_is_live_and_an_ended_one_still(client_for, lake):
    client = client_for("viewer")
    assert "sse-connect" in client.get(f"/jobs/{lake.job.pk}/").content.decode()
    Job.objects.update(state=Job.State.SUCCEEDED)
    assert "sse-connect" not in client.get(f"/jobs/{lake.job.pk}/").content.decode()


def test_the_fragment_of_an_ended_job_stops_the_asking(client_for, lake):
    client, path = client_for("viewer"), f"/jobs/{lake.job.pk}/?seen=running"
    assert client.get(path, **HTMX).status_code == 200
    Job.objects.update(state=Job.State.FAILED, error_message="The disk is full.")
    response = client.get(path, **HTMX)
    assert response.status_code == 286
    body = response.content.decode()
    assert "The disk is full." in body
    assert "<html" not in body
    assert 'hx-swap-oob="true"' in body


def test_a_job_is_cancelling_until_its_worker_has_ended_it(client_for, lake):
    client, path = client_for("owner"), f"/jobs/{lake.job.pk}/"
    client.post(f"{path}cancel/")
    lake.job.refresh_from_db()
    assert (lake.job.state, lake.job.cancel_requested_at is not None) == ("cancelling", True)
    body = client.get(path).content.decode()
    assert "Cancelling since" in body
    assert "Cancel this job" not in body
    Job.objects.update(worker="")
    assert "only checks whether it had committed" in client.get(path).content.decode()


def test_a_job_that_is_asked_to_stop_after_its_commit_began_says_so(client_for, lake):
    Job.objects.update(state=Job.State.COMMITTING)
    client, path = client_for("owner"), f"/jobs/{lake.job.pk}/"
    client.post(f"{path}cancel/")
    assert "after its commit had begun" in client.get(path).content.decode()


def test_a_failed_job_shows_the_chain_of_its_causes(client_for, lake):
    facts = {"causes": ["SparkException: Job aborted", "S3Exception: <b>403</b>"]}
    failed = make_job(lake.table, state=Job.State.FAILED, error_facts=facts)
    body = client_for("viewer").get(f"/jobs/{failed.pk}/").content.decode()
    assert "Chain of causes" in body
    assert "S3Exception: &lt;b&gt;403&lt;/b&gt;" in body


def rerun(client, job, **sent):
    return client.post(f"/jobs/{job.pk}/rerun/", sent)


@pytest.mark.parametrize("state", Job.ENDED)
def test_an_ended_job_is_run_again_on_its_page(client_for, lake, state):
    client = client_for("owner")
    ended = make_job(lake.table, state=state)
    response = rerun(client, ended)
    again = Job.objects.get(retry_of=ended)
    assert response["Location"] == f"/jobs/{ended.pk}/#rerun"
    assert (again.state, again.kind, again.requested_by.username) == ("queued", "optimize", "owner")
    assert again.txn_id != ended.txn_id
    assert f'href="/jobs/{again.pk}/"' in client.get(f"/jobs/{ended.pk}/").content.decode()


def test_a_script_that_succeeded_does_its_steps_once_more(client_for, lake):
    script = parse_request("OPTIMIZE sales.orders; OPTIMIZE sales.orders")[0]
    done = make_job(lake.table, "script", parameters=script.parameters(), base_version=1)
    JobAttempt.objects.create(job=done, number=1, started_at=timezone.now(), outcome="lost")
    rerun(client_for("owner"), done)
    assert Job.objects.get(retry_of=done).txn_id != done.txn_id


def test_a_destructive_job_is_run_again_by_the_name_of_the_table(client_for, lake):
    client = client_for("owner")
    done = make_job(lake.table, "delete", parameters={})
    body = client.get(f"/jobs/{done.pk}/").content.decode()
    assert "Rows or history may be lost." in body
    assert 'name="confirm"' in body
    refused = client.post(f"/jobs/{done.pk}/rerun/", {"confirm": "sales.order"}, **HTMX)
    assert "Type sales.orders to confirm. Nothing was queued." in refused.content.decode()
    assert not Job.objects.filter(retry_of=done).exists()
    rerun(client, done, confirm="sales.orders")
    assert Job.objects.filter(retry_of=done).exists()


def test_a_job_that_keeps_history_is_run_again_without_a_name_or_a_warning_of_loss(
    client_for, lake
):
    titles = {"delete": "Rows of the table change.", "vacuum": "Older versions can then no longer"}
    for kind, title in titles.items():
        parameters = {"where": "order_id = 1"} if kind == "delete" else {}
        done = make_job(lake.table, kind, parameters=parameters)
        body = client_for("owner").get(f"/jobs/{done.pk}/").content.decode()
        assert title in body
        assert "history may be lost" not in body
        assert 'name="confirm"' not in body


def test_a_dry_run_is_run_again_without_a_name_and_has_no_forecast(client_for, lake):
    client = client_for("owner")
    done = make_job(lake.table, "delete", parameters={"where": "order_id = 1"}, dry_run=True)
    assert 'name="confirm"' not in client.get(f"/jobs/{done.pk}/").content.decode()
    assert client.get(f"/api/v1/jobs/{done.pk}/").json()["rerun"]["forecast"] is None
    rerun(client, done)
    assert Job.objects.get(retry_of=done).dry_run


def test_htmx_gets_the_panel_and_then_the_list_until_the_new_job_has_ended(client_for, lake):
    client, done = client_for("owner"), make_job(lake.table)
    panel = client.post(f"/jobs/{done.pk}/rerun/", **HTMX).content.decode()
    again = Job.objects.get(retry_of=done)
    assert f'href="/jobs/{again.pk}/"' in panel
    assert 'hx-trigger="every 3s"' in panel
    assert "<html" not in panel
    Job.objects.filter(pk=again.pk).update(state=Job.State.SUCCEEDED, committed_version=4)
    listed = client.get(f"/jobs/{done.pk}/rerun/", **HTMX).content.decode()
    assert "hx-trigger" not in listed
    assert f"/tables/{lake.table.pk}/history/4/" in listed
    assert "<form" not in listed
    assert client.get(f"/jobs/{done.pk}/rerun/")["Location"] == f"/jobs/{done.pk}/#rerun"


CREATED = parse_request("CREATE TABLE sales.orders (a INT)")[0].parameters()


@pytest.mark.parametrize(
    ("who", "fields", "said"),
    [
        ("owner", {"state": Job.State.RUNNING}, "A job that is running cannot be rerun."),
        (
            "owner",
            {"kind": "create", "parameters": CREATED},
            "A job that is succeeded cannot be rerun.",
        ),
        ("owner", {"parameters": {"no": "such"}}, "no"),
        ("owner", {"kind": "forgotten"}, "forgotten"),
        ("viewer", {}, "viewer"),
    ],
    ids=["runs", "made its table", "unknown parameter", "unknown kind", "no right"],
)
def test_a_job_that_cannot_be_run_again_gives_the_reason(client_for, lake, who, fields, said):
    job = make_job(lake.table, **{"kind": "optimize"} | fields)
    response = client_for(who).post(f"/jobs/{job.pk}/rerun/", **HTMX)
    body = response.content.decode()
    assert response.status_code == 200
    assert 'role="alert"' in body
    assert said in body or who == "viewer"
    assert not Job.objects.filter(retry_of=job).exists()
    assert 'id="rerun-title"' not in client_for("viewer").get(f"/jobs/{job.pk}/").content.decode()


@override_settings(READ_ONLY=True)
def test_read_only_offers_no_rerun_and_accepts_none(client_for, lake):
    client, done = client_for("owner"), make_job(lake.table)
    assert "Run again" not in client.get(f"/jobs/{done.pk}/").content.decode()
    rerun(client, done)
    assert not Job.objects.filter(retry_of=done).exists()


def test_a_rerun_says_beforehand_whether_it_would_land(client_for, lake):
    client = client_for("owner")
    done = make_job(lake.table, "delete", parameters={"where": "order_id = 1"})

    def forecast():
        body = " ".join(client.get(f"/jobs/{done.pk}/").content.decode().split())
        return body, client.get(f"/api/v1/jobs/{done.pk}/").json()["rerun"]["forecast"]

    lake.job.delete()
    body, told = forecast()
    assert "it would commit as v4" in body
    assert (told["forecast"], told["next_version"], told["coming"]) == ("never", 4, [])
    Job.objects.filter(pk=done.pk).update(state=Job.State.FAILED)
    assert "it fails again unless the cause is removed" in forecast()[0]
    Job.objects.filter(pk=done.pk).update(state=Job.State.SUCCEEDED)
    Job.objects.filter(pk=done.pk).update(created_at=timezone.now() - timedelta(hours=1))
    other = make_job(
        lake.table, "update", state=Job.State.RUNNING, started_at=timezone.now(),
        parameters={"set": {"status": "'x'"}, "where": "order_id = 1"},
    )  # fmt: skip
    body, told = forecast()
    assert "it would commit, unless the UPDATE of the system changes the same rows first" in body
    assert told["forecast"] == "same row"
    Job.objects.filter(pk=other.pk).update(
        kind="alter_drop_columns", parameters={"columns": ["status"]}
    )
    body, told = forecast()
    assert "it would be aborted by the DROP COLUMNS of the system, if that commits" in body
    assert told["forecast"] == "always"


def test_the_log_is_text_to_keep(client_for, lake):
    response = client_for("viewer").get(f"/jobs/{lake.job.pk}/log/")
    assert response["Content-Type"].startswith("text/plain")
    assert "Attempt 1 started" in response.content.decode()


def _collect_stream(view, request, **kwargs):
    """Return the parts of a page's stream; `after_two` is called once two were sent."""

    async def collect(after_two=lambda: None):
        sent = []
        response = await view(request, **kwargs)
        async for part in response.streaming_content:
            sent.append(part)
            if len(sent) == 2:
                await sync_to_async(after_two)()
        return sent

    return async_to_sync(collect)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(event_streams, "CHECK_S", 0)
    monkeypatch.setattr(event_streams, "LONGEST_S", 0.3)


@pytest.mark.django_db
def test_a_stream_announces_changes_and_its_end(impatient, client_for, lake):
    running = make_job(lake.table, "optimize", state="running")
    client = client_for("viewer")
    request = RequestFactory().get(f"/jobs/{running.pk}/stream/")
    request.session, request.user = client.session, User.objects.get(username="viewer")

    def end():
        Job.objects.filter(pk=running.pk).update(state="succeeded")

    sent = b"".join(_collect_stream(streams.job_stream, request, pk=running.pk)(end)).decode()
    assert sent.count("event: changed") == 1
    assert sent.endswith("event: ended\ndata: last\n\n")


@pytest.mark.parametrize(
    ("address", "lost"),
    [
        ("/jobs/stream/", "session"),
        ("/jobs/stream/", "account"),
        ("/jobs/{job}/stream/", "session"),
        ("/jobs/{job}/stream/", "account"),
        ("/jobs/{job}/stream/", "role"),
    ],
)
def test_a_stream_ends_for_a_person_who_loses_the_right(client_for, lake, impatient, address, lost):
    running = make_job(lake.table, "optimize", state="running")
    client = client_for("viewer")
    request = RequestFactory().get(address.format(job=running.pk))
    request.session, request.user = client.session, User.objects.get(username="viewer")
    view = resolve(request.path)
    lose = {
        "session": client.logout,
        "account": lambda: User.objects.filter(username="viewer").update(is_active=False),
        "role": request.user.groups.clear,
    }
    collect = _collect_stream(view.func, request, **view.kwargs)
    assert b": closed\n\n" not in collect()
    assert collect(lose[lost])[-1] == b": closed\n\n"


def test_a_person_has_as_many_page_streams_as_rest_gives(client_for, lake, monkeypatch):
    monkeypatch.setattr(event_streams, "MOST_OF_ONE", 1)
    client = client_for("viewer")
    first = client.get("/jobs/stream/")
    refused = client.get("/jobs/stream/")
    assert (first.status_code, refused.status_code) == (200, 503)
    assert refused["Retry-After"]
    del first
    gc.collect()


def test_the_plan_of_a_dry_run_names_files_reasons_and_versions_lost(client_for, lake):
    files = [
        {"path": f"part-{n:05}.parquet", "size_bytes": 2048, "reason": "old"} for n in range(3)
    ]
    plan = {
        "summary": "3 files would be deleted.",
        "file_count": 1200,
        "size_bytes": 6144,
        "files": files,
        "running_writers": ["MERGE of etl-nightly"],
        "versions_lost": [[0, 2], [7, 7]],
        "retention_hours": 168.0,
    }
    job = make_job(lake.table, "vacuum", state="succeeded", dry_run=True, plan=plan)
    body = client_for("viewer").get(f"/jobs/{job.pk}/").content.decode()
    for said in (
        "3 files would be deleted.", "part-00002.parquet", "v0 to v2, v7", "168 h", "6 KiB",
        "MERGE of etl-nightly", "The first 3 of 1,200 files",
    ):  # fmt: skip
        assert said in body


def test_a_retention_below_an_hour_is_shown_in_seconds(client_for, lake):
    plan = {"summary": "Nothing.", "retention_hours": 10 / 3600}
    job = make_job(lake.table, "vacuum", state="succeeded", dry_run=True, plan=plan)
    assert "<dd>10 s</dd>" in client_for("viewer").get(f"/jobs/{job.pk}/").content.decode()


def post_check(client, table, **fields):
    return new(client, table, step="check", **fields).content.decode()


def test_merge_is_filled_in_clause_by_clause(client_for, lake):
    fields = {
        "kind": "merge",
        "source.kind": "rows",
        "source.rows.columns": "order_id, status",
        "source.rows.rows": "1, 'open, or not'\n(2, 'done')",
        "on": "target.order_id = source.order_id",
        "clauses.0.when": "matched",
        "clauses.0.action": "update",
        "clauses.0.assignments": "status = source.status",
        "clauses.1.when": "",
        "clauses.2.when": "not_matched",
        "clauses.2.action": "insert_all",
    }
    body = post_check(client_for("owner"), lake.table, **fields)
    assert "statement recognized" in body
    assert "WHEN MATCHED THEN UPDATE SET status = source.status" in body
    assert "WHEN NOT MATCHED THEN INSERT *" in body
    assert "(1, &#x27;open, or not&#x27;), (2, &#x27;done&#x27;)" in body


def test_one_more_clause_keeps_the_filled_in_values_and_blames_nothing(client_for, lake):
    fields = {"kind": "merge", "clauses.0.when": "matched", "on": "a = b", "more": "clauses"}
    body = new(client_for("owner"), lake.table, **fields).content.decode()
    assert 'name="clauses.1.when"' in body
    assert 'name="clauses.2.when"' not in body
    assert "a = b</textarea>" in body
    assert 'class="error"' not in body


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"source.kind": "files", "source.files.uri": "/nowhere", "source.files.delimiter": ";;",
          "source.files.format": "csv"}, "source.files.delimiter"),
        ({"source.kind": "rows", "source.rows.rows": "1, 2\n3"}, "source.rows.rows"),
        ({"source.kind": "rows", "source.rows.rows": "1, ("}, "source.rows"),
        ({"source.kind": "table", "source.table.table": ""}, "source.table.table"),
        ({"source.kind": "query", "source.query.query": "SELECT FROM"}, "source.query.query"),
    ],
)  # fmt: skip
def test_a_fault_of_a_source_is_shown_at_its_field(client_for, lake, fields, at):
    body = post_check(client_for("owner"), lake.table, kind="append", **fields)
    assert f'id="id_{at}' in body
    assert "_error" in body
    assert "statement recognized" not in body


def test_an_impossible_clause_is_marked_at_its_place(client_for, lake):
    fields = {
        "kind": "merge", "source.kind": "table", "source.table.table": "sales.orders", "on": "1 = 1",
        "clauses.0.when": "matched", "clauses.0.action": "insert_all",
    }  # fmt: skip
    body = post_check(client_for("owner"), lake.table, **fields)
    assert 'id="id_clauses.0.when_error"' in body


def test_only_the_fields_of_the_chosen_source_count(client_for, lake):
    fields = {
        "kind": "append", "source.kind": "table", "source.table.table": "sales.orders",
        "source.table.where": "order_id < 3", "source.files.uri": "/left/over.csv",
    }  # fmt: skip
    body = post_check(client_for("owner"), lake.table, **fields)
    assert "SELECT * FROM sales.orders WHERE order_id &lt; 3" in body


def test_a_form_shows_the_statement_of_its_table_and_its_earlier_dry_run(client_for, lake):
    statement = "VACUUM sales.orders RETAIN 200 HOURS"
    make_job(lake.table, "vacuum", statement=statement, dry_run=True, plan={"summary": "Some."})
    parameters = json.dumps({"retention_hours": 200})
    body = new(
        client_for("owner"), lake.table, step="check", kind="vacuum", parameters=parameters
    ).content.decode()
    assert statement in body
    assert "A dry run of this statement" in body


def run_of(lake, *, number=1, **attempt):
    now = timezone.now()
    fields = {"job": lake.job, "number": number, "read_version": 2, "started_at": now}
    return JobAttempt.objects.create(**fields | attempt)


def stage_of(attempt, place, name, **more):
    fields = {"attempt": attempt, "place": place, "name": name, "started_at": timezone.now()}
    return JobStage.objects.create(**fields | more)


def test_the_steps_of_a_run_show_their_time_and_their_findings(client_for, lake):
    attempt, now = lake.job.attempt_rows.get(), timezone.now()
    stage_of(attempt, 0, "read the table", took_ms=900, finished_at=now, found="1 of 9 files")
    stage_of(
        attempt, 1, "write new rows", took_ms=4000, unit="tasks", done=3, running=2, total=10,
        median_ms=810, slowest_ms=4100, slowest_task=7,
    )  # fmt: skip
    body = client_for("viewer").get(f"/jobs/{lake.job.pk}/").content.decode()
    assert "Read v2" in body
    assert "900 ms, 1 of 9 files" in body
    assert "3 of 10 tasks done, 2 running, 5 waiting" in body
    assert body.count('class="task-') == 10 + 3  # and the legend
    assert "slowest: task 7, 4.1 s" in body


def test_thousands_of_tasks_are_drawn_as_hundreds():
    field = task_field(done=1000, running=16, total=4001)
    assert (field.per_cell, len(field.cells)) == (11, 364)
    assert [box.state for box in field.cells].count("done") == 91
    assert max(cell.x for cell in field.cells) + field.width <= 100


def test_wasted_work_is_shown_beside_useful_work(client_for, lake):
    then = timezone.now() - timedelta(minutes=30)
    lake.job.attempt_rows.update(number=2, core_ms=61_000, bytes_written=3 * 1024**2)
    run_of(
        lake, outcome="conflicted", started_at=then, finished_at=then + timedelta(minutes=3),
        core_ms=122_000, bytes_written=2 * 1024**3, files_written=4,
    )  # fmt: skip
    body = client_for("viewer").get(f"/jobs/{lake.job.pk}/").content.decode()
    for said in ("1 min 1 s", "2 min 2 s", "3 MiB", "2 GiB", "4 files", "aborted by v3"):
        assert said in body, said
    cost = client_for("viewer").get(f"/api/v1/jobs/{lake.job.pk}/").json()["cost"]
    assert cost["useful"]["core_ms"] == "61000"
    assert (cost["wasted"]["core_ms"], cost["wasted"]["bytes_read"]) == ("122000", None)


def test_an_earlier_attempt_keeps_its_steps(client_for, lake):
    lake.job.attempt_rows.update(number=2)
    first = run_of(lake, outcome="conflicted", finished_at=timezone.now())
    stage_of(
        first, 0, "match rows", took_ms=1, finished_at=timezone.now(), found="71 files hold a match"
    )
    client = client_for("viewer")
    assert "71 files hold a match" in client.get(f"/jobs/{lake.job.pk}/?attempt=1").content.decode()
    assert client.get(f"/jobs/{lake.job.pk}/?attempt=9").status_code == 404


def test_earlier_runs_say_when_this_one_may_end(client_for, lake):
    now = timezone.now()
    for minutes in (4, 5, 6, 30):
        make_job(
            lake.table, created_at=now - timedelta(days=1), finished_at=now - timedelta(days=1),
            started_at=now - timedelta(days=1, minutes=minutes),
        )  # fmt: skip
    body = client_for("viewer").get(f"/jobs/{lake.job.pk}/").content.decode()
    assert "from 4 runs" in body
    outlook = client_for("viewer").get(f"/api/v1/jobs/{lake.job.pk}/").json()["outlook"]
    assert outlook["usual"] == {"median_ms": "330000", "spread_ms": "60000", "runs": 4}


UPDATE = {"assignments": {"amount": "0"}, "where": "order_id = 1"}


def outlook_of_a_run(client, lake):
    return client.get(f"/api/v1/jobs/{lake.job.pk}/").json()["outlook"]


def test_a_change_of_the_definition_would_cost_the_run(client_for, lake):
    client = client_for("viewer")
    answer = outlook_of_a_run(client, lake)
    assert (answer["forecast"], answer["next_version"]) == ("never", 4), "OPTIMIZE after DELETE"
    Job.objects.filter(pk=lake.job.pk).update(kind="update", parameters=UPDATE)
    assert outlook_of_a_run(client, lake)["forecast"] == "same row"
    lake.table.commits.filter(version=3).update(changes_metadata=True)
    answer = outlook_of_a_run(client, lake)
    assert answer["forecast"] == answer["landed"][0]["forecast"] == "always"
    assert "it would be aborted" in client.get(f"/jobs/{lake.job.pk}/").content.decode()


def test_pairs_on_record_say_how_often_such_a_write_lost(client_for, lake):
    Job.objects.filter(pk=lake.job.pk).update(kind="update", parameters=UPDATE)
    Conflict.objects.filter(table=lake.table).delete()
    for number in range(17):
        make_conflict(
            lake.table, kind="resolved", current_operation="UPDATE", winner_operation="DELETE",
            winning_version=number, file_count=9,
        )  # fmt: skip
    make_conflict(lake.table, current_operation="UPDATE", winner_operation="DELETE", file_count=9)
    body = client_for("viewer").get(f"/jobs/{lake.job.pk}/").content.decode()
    assert "1 in 18 such pairs was aborted" in body
    assert "≈ 9" in body


def test_metrics_are_named_in_words_with_units():
    metrics = {"numTargetRowsUpdated": "694502", "numAddedBytes": 3 * 1024**2, "scanTimeMs": 61000}
    readable = {
        readable_metric.label: readable_metric.value
        for readable_metric in readable_metrics(metrics | {"numCopiedRows": 0})
    }
    assert readable == {
        "Matched, updated": "694,502",
        "Added bytes": "3 MiB",
        "Finding rows took": "1 min 1 s",
    }


def test_a_run_that_ended_well_opens_the_form_with_its_statement(client_for, lake):
    Job.objects.filter(pk=lake.job.pk).update(state=Job.State.SUCCEEDED)
    body = client_for("owner").get(f"/jobs/{lake.job.pk}/").content.decode()
    assert "Run again…" in body
    assert "sql=OPTIMIZE%20sales.orders" in body


def test_the_job_that_made_a_table_is_not_offered_again_and_checked_nothing_before_it(
    client_for, lake
):
    job = make_job(
        lake.table, "create", state="succeeded", statement="CREATE TABLE sales.orders (a INT)",
        committed_version=0, started_at=timezone.now(), finished_at=timezone.now(),
    )  # fmt: skip
    attempt = JobAttempt.objects.create(
        job=job, number=1, outcome="committed", attempted_version=0, started_at=timezone.now()
    )
    JobStage.objects.create(
        attempt=attempt,
        place=0,
        name="check",
        started_at=timezone.now(),
        finished_at=timezone.now(),
    )
    body = client_for("owner").get(f"/jobs/{job.pk}/").content.decode()
    assert "Check" in body
    assert "v-1" not in body
    assert "Run again" not in body


def test_a_statement_shows_its_likely_conflicts_beforehand(client_for, lake, people):
    Schedule.objects.create(
        name="nightly purge", table=lake.table, cron="0 3 * * *", kind="reorg",
        owner=people["owner"], next_due_at=timezone.now() + timedelta(minutes=9),
    )  # fmt: skip
    body = new(client_for("owner"), lake.table, sql="DELETE FROM sales.orders WHERE order_id = 1")
    said = body.content.decode()
    assert "at most 96 files" in said
    assert "schedule “nightly purge”" in said
    assert f'href="/jobs/{lake.job.pk}/"' in said
    told = client_for("owner").get(f"/api/v1/tables/{lake.table.pk}/forecast/?kind=delete").json()
    assert (told["files"], told["usual"]) == ("96", None)
    assert [row["forecast"] for row in told["coming"]] == ["never", "never"], "they move rows"


def test_a_run_whose_worker_recorded_no_steps_says_so(lake):
    lake.job.progress_unit = "tasks"
    work, commit = steps_of(lake.job, lake.job.attempt_rows.get(), [], [])[1:]
    assert (work.state, work.words) == ("now", "4 of 9 tasks")
    assert (commit.state, commit.words) == ("waiting", "as v4 or later")


def test_a_job_cancelled_in_the_queue_got_no_further(lake):
    job = make_job(lake.table, state=Job.State.CANCELLED)
    assert [(step.name, step.state) for step in steps_of(job, None, [], [])] == [
        ("Queue", "stopped")
    ]


def test_the_steps_of_the_last_run_are_shown_as_still_to_come(client_for, lake):
    now = timezone.now()
    before = make_job(lake.table, started_at=now, finished_at=now)
    last = JobAttempt.objects.create(job=before, number=1, started_at=now, outcome="committed")
    for place, name in enumerate(("read the table", "compact files", "check", HOLDING, "commit")):
        stage_of(last, place, name, finished_at=now)
    stage_of(lake.job.attempt_rows.get(), 0, "read the table", took_ms=900)
    body = client_for("viewer").get(f"/jobs/{lake.job.pk}/").content.decode()
    way = [body.index(f"</svg>{name}</span>") for name in ("Queue", "Read v2", "Compact", "Check")]
    assert way == sorted(way)
    assert "as v4 or later" in body
    assert "Hold for another job" not in body, "that was a rehearsal"


def test_the_runs_of_one_schedule_are_a_list(client_for, lake, people):
    schedule = Schedule.objects.create(
        name="nightly", table=lake.table, cron="0 3 * * *", kind="vacuum", owner=people["owner"]
    )
    made = make_job(lake.table, "vacuum", schedule=schedule)
    client = client_for("viewer")
    assert f"/jobs/?schedule={schedule.pk}" in client.get("/schedules/").content.decode()
    body = client.get(f"/jobs/?schedule={schedule.pk}").content.decode()
    assert f"/jobs/{made.pk}/" in body
    assert f"/jobs/{lake.job.pk}/" not in body
    told = client.get(f"/api/v1/jobs/?schedule={schedule.pk}").json()
    assert [row["id"] for row in told["items"]] == [str(made.pk)]
    assert client.get("/jobs/?schedule=often").status_code == 400


def test_a_write_and_the_compaction_after_it_link_to_each_other(client_for, lake):
    compaction = make_job(lake.table, kind="optimize", caused_by=lake.job)
    written = client_for("owner").get(f"/jobs/{lake.job.pk}/").content.decode()
    assert "Follow-up jobs" in written
    assert f'href="/jobs/{compaction.pk}/"' in written
    followed = client_for("owner").get(f"/jobs/{compaction.pk}/").content.decode()
    assert f'requested by the table after <a href="/jobs/{lake.job.pk}/">' in followed
    twin = client_for("owner").get(f"/api/v1/jobs/{lake.job.pk}/").json()
    assert (twin["caused_by"], twin["follow_ups"]) == (None, [str(compaction.pk)])


def test_states_are_counted_within_the_other_filters(client_for, lake):
    make_job(lake.table, "vacuum", state=Job.State.FAILED)
    make_job(lake.table, "vacuum")
    body = client_for("viewer").get("/jobs/?kind=vacuum&state=failed").content.decode()
    for said in ("All <small>2</small>", "Active <small>0</small>", "Failed <small>1</small>"):
        assert said in body, said
    assert "1 to 1 of 1" in body


def test_a_job_that_ended_waits_for_no_worker_any_more(client_for, lake):
    ended = make_job(lake.table, state=Job.State.FAILED, finished_at=timezone.now())
    page = client_for("viewer").get(f"/jobs/{ended.pk}/").text
    assert "Its attempts were not recorded." in page
    assert "No worker has taken it yet" not in page
    assert "Nothing was logged." in page


def test_the_time_of_a_job_is_one_axis_of_queue_attempts_and_steps(client_for, lake):
    then = timezone.now() - timedelta(minutes=10)
    ended = then + timedelta(minutes=8)
    job = make_job(
        lake.table, state=Job.State.SUCCEEDED, created_at=then, finished_at=ended, attempts=2,
        started_at=then + timedelta(minutes=1), committed_version=3,
    )  # fmt: skip
    for number, first, last, outcome in ((1, 1, 3, "conflicted"), (2, 4, 8, "committed")):
        JobAttempt.objects.create(
            job=job, number=number, started_at=then + timedelta(minutes=first), outcome=outcome,
            finished_at=then + timedelta(minutes=last),
        )  # fmt: skip
    second = job.attempt_rows.get(number=2)
    stage_of(
        second, 0, "write files", started_at=then + timedelta(minutes=4), finished_at=ended,
        took_ms=240_000, found="9 files",
    )  # fmt: skip
    body = client_for("viewer").get(f"/jobs/{job.pk}/").content.decode()
    assert "8 min from the request" in body
    rows = [
        (row.label, row.shape, round(row.x, 1), round(row.width, 1), row.took_ms // 60_000)
        for row in client_for("viewer").get(f"/jobs/{job.pk}/").context["gantt"].rows
    ]
    assert rows == [
        ("Queue", "wait", 0, 12.5, 1),
        ("Attempt 1", "attempt", 12.5, 25, 2),
        ("Wait", "wait", 37.5, 12.5, 1),
        ("Attempt 2", "attempt", 50, 50, 4),
        ("Write", "step", 50, 50, 4),
    ]
    told = client_for("viewer").get(f"/api/v1/jobs/{job.pk}/").json()["timeline"]
    assert (told["total_ms"], told["excess_ms"]) == ("480000", "0")
    assert sum(int(part["took_ms"]) for part in told["parts"]) == 480_000
    assert [part["kind"] for part in told["parts"]] == [
        "queue", "unrecorded", "wait", "step",
    ]  # fmt: skip
    assert told["parts"][-1]["step"] == "write files"


@pytest.mark.parametrize(
    "fields",
    [
        {"state": Job.State.QUEUED},
        {"state": Job.State.CANCELLED},
        {"state": Job.State.FAILED, "started_at": timezone.now()},
        {"state": Job.State.SUCCEEDED, "finished_at": timezone.now() - timedelta(days=1)},
        {"state": Job.State.SUCCEEDED, "started_at": timezone.now() + timedelta(days=1)},
        {"state": Job.State.RUNNING, "started_at": timezone.now() + timedelta(days=1)},
    ],
    ids=["queued", "cancelled", "no end", "ends before it was requested", "starts later", "ahead"],
)
def test_a_job_of_which_little_or_nonsense_was_recorded_has_a_page_and_its_json(
    client_for, lake, fields
):
    job = make_job(lake.table, **fields)
    attempt = JobAttempt.objects.create(
        job=job, number=1, started_at=timezone.now() - timedelta(days=2), outcome="running"
    )
    stage_of(attempt, 0, "write files", took_ms=-5, found="x" * 200)
    client = client_for("viewer")
    assert "Where the time went" in client.get(f"/jobs/{job.pk}/").content.decode()
    told = client.get(f"/api/v1/jobs/{job.pk}/").json()["timeline"]
    assert all(int(part["took_ms"]) >= 0 for part in told["parts"])


def test_the_log_is_below_the_steps_that_wrote_it(client_for, lake):
    attempt, now = lake.job.attempt_rows.get(), timezone.now()
    Job.objects.update(created_at=now - timedelta(seconds=90))
    JobAttempt.objects.update(started_at=now - timedelta(seconds=60))
    stage_of(attempt, 0, "read the table", started_at=now - timedelta(seconds=50), finished_at=now)
    stage_of(attempt, 1, "write files", started_at=now - timedelta(seconds=30))
    lake.job.events.all().delete()
    for seconds, message, data in (
        (90, "Queued", {}),
        (55, "Attempt 1 started", {}),
        (45, "9 files", {}),
        (20, "told late", {"attempt": 1, "step": 0}),
        (10, "writing", {"attempt": 7, "step": ["damaged"]}),
    ):
        JobEvent.objects.create(
            job=lake.job, at=now - timedelta(seconds=seconds), message=message, data=data
        )
    response = client_for("viewer").get(f"/jobs/{lake.job.pk}/")
    groups = [
        (group.title, group.anchor, [event.message for event in group.events])
        for group in response.context["log_groups"]
    ]
    assert groups == [
        ("Queue", "log-0-x", ["Queued"]),
        ("Attempt 1", "log-1-x", ["Attempt 1 started"]),
        ("Read v2", "log-1-0", ["9 files", "told late"]),
        ("Write", "log-1-1", ["writing"]),
    ]
    assert '<a href="#log-1-0"' in response.content.decode()


def test_a_slower_run_says_which_step_explains_it(client_for, lake):
    now = timezone.now()
    for hours, took in ((3, 60), (2, 60), (1, 300)):
        began = now - timedelta(hours=hours)
        job = make_job(
            lake.table, created_at=began, started_at=began, attempts=1,
            finished_at=began + timedelta(seconds=took), metrics={"numAddedFiles": 2},
        )  # fmt: skip
        attempt = JobAttempt.objects.create(
            job=job, number=1, started_at=began, finished_at=job.finished_at, outcome="committed"
        )
        stage_of(
            attempt, 0, "compact files", started_at=began, finished_at=job.finished_at,
            took_ms=took * 1000,
        )  # fmt: skip
    body = client_for("viewer").get(f"/jobs/{job.pk}/").content.decode()
    assert "4 min slower than usual" in body
    assert "Compact took 4 min longer: 5 min, usually 1 min." in body
    told = client_for("viewer").get(f"/api/v1/jobs/{job.pk}/").json()["comparison"]
    assert (told["verdict"], told["usual_ms"], told["more_ms"]) == ("slower", "60000", "240000")
    assert told["explains"]["name"] == "compact files"
    assert len(told["runs"]) == 2
    first = told["runs"][1]["job_id"]
    assert client_for("viewer").get(f"/api/v1/jobs/{first}/").json()["comparison"] is None
