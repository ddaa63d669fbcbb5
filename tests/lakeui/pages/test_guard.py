"""The guard before removing rows or history: the impact, the table's name, no primary button."""

import re

import pytest

from lakeui.jobs.models import Job, JobAttempt
from tests.lakeui.factories import make_commit, make_job

GUARDED = {
    "DELETE FROM t": "This removes all 7 rows in 2 files",
    "TRUNCATE TABLE t": "This removes all 7 rows in 2 files",
    "INSERT OVERWRITE t VALUES (1, 'x')": "This removes all 7 rows in 2 files",
    "CREATE OR REPLACE TABLE t (id BIGINT) USING DELTA": "columns, properties and partitioning",
    "CREATE OR REPLACE TABLE t SHALLOW CLONE other": "columns, properties and partitioning",
    "RESTORE TABLE t TO VERSION AS OF 1": "Undoes 2 versions, v2 to v3",
    "VACUUM t RETAIN 0 HOURS WITH ('overrideRetention' = 'true')": "can no longer be read or restored",
    "UPDATE t SET order_id = 1": "are removed or changed",
    "DELETE FROM t; OPTIMIZE t": "1 step of 2 can remove rows",
}
FREE = (
    "DELETE FROM t WHERE order_id = 1",
    "UPDATE t SET order_id = 2 WHERE order_id = 1",
    "VACUUM t RETAIN 200 HOURS",
    "ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "OPTIMIZE t",
    "INSERT INTO t VALUES (1, 'x')",
    "OPTIMIZE t; REORG TABLE t APPLY (PURGE)",
)


@pytest.fixture
def table(lake):
    lake.table.row_count, lake.table.file_count = 7, 2
    lake.table.save()
    return lake.table


def _form(client, table, sql: str, **fields):
    return client.post("/jobs/new/", {"table": table.pk, "kind": "sql", "sql": sql, **fields})


@pytest.mark.parametrize("sql", GUARDED)
def test_a_command_that_removes_rows_is_marked_and_runs_only_by_the_typed_name(
    client_for, table, sql
):
    client = client_for("owner")
    body = _form(client, table, sql, step="check").content.decode()
    assert "Rows or history may be lost" in body
    assert GUARDED[sql] in body
    assert 'id="id_confirm"' in body
    assert "data-asks-name" in body
    panel = body.partition('id="run-buttons"')[2].partition("</form>")[0]
    assert re.findall(r'class="(btn[^"]*)"', panel) == ["btn", "btn btn-danger"]
    assert _form(client, table, sql, step="run").status_code == 400
    assert _form(client, table, sql, step="run", confirm="t").status_code == 400
    assert not Job.objects.filter(statement__icontains=sql.split()[0], table=table).exists()


def test_a_table_rewritten_from_itself_is_read_and_its_rows_come_back(client_for, table):
    for sql in (
        "CREATE OR REPLACE TABLE t USING DELTA CLUSTER BY (order_id) AS SELECT * FROM t",
        "INSERT OVERWRITE t SELECT * FROM sales.orders",
    ):
        body = " ".join(
            _form(client_for("owner"), table, sql, step="check").content.decode().split()
        )
        assert (
            "This removes all 7 rows in 2 files, and then writes the rows that the query selects"
            in body
        )
        assert "at most 2 files" in body, sql
        assert "no file of the table" not in body, sql


@pytest.mark.parametrize("sql", FREE)
def test_commands_that_remove_nothing_are_not_guarded(client_for, table, sql):
    body = _form(client_for("owner"), table, sql, step="check").content.decode()
    assert "may be lost" not in body
    assert "data-runs" in body
    assert "data-asks-name" not in body


@pytest.mark.parametrize(("rows", "asks"), [(1, False), (2, True)])
def test_a_dry_run_with_many_rows_requires_the_name(client_for, table, rows, asks):
    plan = {"summary": "Rows would be deleted.", "rows": rows, "rows_are_counted": True}
    sql = "DELETE FROM t WHERE order_id = 1"
    client = client_for("owner")
    statement = _form(client, table, sql, step="check").context["understood"].statement
    finished = {"state": Job.State.SUCCEEDED, "finished_at": table.registered_at}
    make_job(table, "delete", statement=statement, dry_run=True, plan=plan, **finished)
    assert ("data-asks-name" in _form(client, table, sql, step="check").content.decode()) is asks
    assert _form(client, table, sql, step="run").status_code == (400 if asks else 302)


@pytest.mark.parametrize(
    ("sql", "is_refused"),
    [
        ("VACUUM t RETAIN 0 HOURS", True),
        ("VACUUM t RETAIN 0 HOURS DRY RUN", True),
        ("VACUUM t RETAIN 0 HOURS WITH ('overrideRetention' = 'true')", False),
        ("VACUUM t RETAIN 168 HOURS", False),
        ("VACUUM t", False),
    ],
)
def test_a_vacuum_below_the_retention_is_refused_where_it_is_typed(
    client_for, table, sql, is_refused
):
    client, jobs = client_for("owner"), Job.objects.count()
    body = _form(client, table, sql, step="check").content.decode()
    assert ("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT" in body) is is_refused
    address = f"/api/v1/tables/{table.pk}/jobs/"
    sent = {"sql": sql} if sql.endswith("DRY RUN") else {"sql": sql, "dry_run": True}
    answer = client.post(address, sent, content_type="application/json")
    assert answer.status_code == (422 if is_refused else 202)
    assert Job.objects.count() - jobs == (not is_refused)


def test_the_tables_own_retention_counts(client_for, table):
    table.properties = {"delta.deletedFileRetentionDuration": "interval 10 days"}
    table.save()
    body = _form(
        client_for("owner"), table, "VACUUM t RETAIN 200 HOURS", step="check"
    ).content.decode()
    assert "retention of 240 hours" in body


def test_a_restore_shows_rows_written_since_and_those_deleted_since(client_for, table):
    make_commit(table, 4, "DELETE", rows_added=30, rows_deleted_by_vectors=1)
    table.version = 4
    table.save()
    body = _form(client_for("owner"), table, "RESTORE TABLE t TO VERSION AS OF 3", step="check")
    text = body.content.decode()
    for words in (
        "Undoes 1 version, v4",
        "removes up to 30 rows written after that version",
        "restores 1 row deleted after",
    ):
        assert words in text


def test_a_dry_run_that_failed_wasted_nothing(client_for, table):
    now = table.commits.get(version=3).committed_at
    spans = {"started_at": now, "finished_at": now}
    for dry_run in (True, False):
        job = make_job(table, "vacuum", state=Job.State.FAILED, dry_run=dry_run, **spans)
        JobAttempt.objects.create(
            job=job, number=1, outcome=JobAttempt.Outcome.FAILED, bytes_written=5, **spans
        )
        cost = client_for("owner").get(f"/jobs/{job.pk}/").context["cost"]
        assert (cost.wasted.attempts, cost.useful.attempts) == (int(not dry_run), int(dry_run))
