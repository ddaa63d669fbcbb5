"""Tables, versions, files, jobs and conflicts over REST."""

import pytest

from lakeui.catalog.models import Commit, Table
from lakeui.jobs.models import Job
from tests.engine.commands.statements import TRANSACTIONS
from tests.lakeui.api.problem import problem


def test_bytes_and_rows_are_text_so_that_javascript_keeps_them(client_for, table):
    body = client_for("viewer").get(f"/api/v1/tables/{table.pk}/").json()
    assert body["size_bytes"] == str(3 * 2**53)
    assert body["row_count"] == "30"
    assert body["version"] == 2


def test_numbers_that_would_round_are_text_wherever_they_are(client_for, table):
    Commit.objects.filter(version=1).update(operation_metrics={"rows": 2**53, "few": 1})
    body = client_for("viewer").get(f"/api/v1/tables/{table.pk}/versions/1/").json()
    assert body["operation_metrics"] == {"rows": str(2**53), "few": 1}


def test_times_are_rfc_3339_in_utc(client_for, table):
    body = client_for("viewer").get(f"/api/v1/tables/{table.pk}/").json()
    assert body["last_commit_at"] == "2026-11-02T12:00:00Z"


def test_values_that_a_writer_did_not_record_are_null(client_for, table):
    body = client_for("viewer").get(f"/api/v1/tables/{table.pk}/versions/1/").json()
    assert (body["isolation_level"], body["read_version"], body["engine_info"]) == (None,) * 3


def test_a_table_whose_log_was_never_read_is_pending(client_for, table):
    Table.objects.update(version=None)
    [row] = client_for("viewer").get("/api/v1/tables/").json()["items"]
    assert (row["health"], row["version"]) == ("pending", None)


def test_a_description_changes_only_if_it_was_seen(client_for, table):
    caller, path = client_for("maintainer"), f"/api/v1/tables/{table.pk}/"
    seen = caller.get(path).headers["ETag"]
    changed = caller.patch(
        path, {"description": "Orders"}, format="json", headers={"If-Match": seen}
    )
    assert changed.json()["description"] == "Orders"
    assert changed.headers["ETag"] != seen
    stale = caller.patch(path, {"description": "x"}, format="json", headers={"If-Match": seen})
    problem(stale, 412, "PRECONDITION_FAILED")
    problem(caller.patch(path, {"description": "x"}, format="json"), 428, "PRECONDITION_REQUIRED")


def test_a_statement_that_opens_a_transaction_names_the_block(client_for, table):
    for sql in TRANSACTIONS:
        path = f"/api/v1/tables/{table.pk}/jobs/"
        refused = problem(client_for("admin").post(path, {"sql": sql}, format="json"), 422)
        assert "one block, BEGIN ATOMIC" in str(refused), sql
    assert not Job.objects.exists()


def test_a_job_is_accepted_with_the_place_to_look(client_for, table):
    body = {"kind": "optimize", "parameters": {}, "reason": "Monday"}
    response = client_for("maintainer").post(
        f"/api/v1/tables/{table.pk}/jobs/", body, format="json"
    )
    job = Job.objects.get()
    assert response.status_code == 202
    assert response.headers["Location"].endswith(f"/api/v1/jobs/{job.pk}/")
    assert response.json()["id"] == str(job.pk)
    assert (job.reason, job.requested_by.username) == ("Monday", "maintainer")


def test_a_job_may_be_requested_in_sql(client_for, table):
    body = {"sql": f"OPTIMIZE {table.name}", "dry_run": True}
    response = client_for("maintainer").post(
        f"/api/v1/tables/{table.pk}/jobs/", body, format="json"
    )
    assert (response.status_code, response.json()["dry_run"]) == (202, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "kind"),
        ({"kind": "optimize", "sql": "OPTIMIZE t"}, "kind"),
        ({"sql": "OPTIMIZE t", "parameters": {}}, "parameters"),
        ({"kind": "conquer", "parameters": {}}, "kind"),
        ({"kind": "optimize", "parameters": []}, "parameters"),
        ({"kind": "optimize", "retries": -1}, "retries"),
        ({"kind": "optimize", "time_limit_s": 10**9}, "time_limit_s"),
        ({"sql": "DROP DATABASE"}, "sql"),
        ({"sql": "OPTIMIZE other.table"}, "table"),
        ({"kind": "delete", "parameters": {"where": " "}}, "parameters.where"),
    ],
)
def test_a_request_at_fault_names_the_field(client_for, table, body, field):
    response = client_for("admin").post(f"/api/v1/tables/{table.pk}/jobs/", body, format="json")
    faults = problem(response, 422)["errors"]
    assert field in {fault["field"] for fault in faults}
    assert not Job.objects.exists()


def test_a_job_has_attempts_events_and_conflicts(client_for, job, conflict):
    body = client_for("viewer").get(f"/api/v1/jobs/{job.pk}/").json()
    assert [row["outcome"] for row in body["attempt_rows"]] == ["conflicted"]
    assert body["conflicts"] == [conflict.pk]
    [event] = client_for("viewer").get(f"/api/v1/jobs/{job.pk}/events/").json()["items"]
    assert event["message"] == "Queued"


def test_a_queued_job_is_cancelled_by_its_requester(client_for, job):
    Job.objects.update(state=Job.State.QUEUED)
    response = client_for("maintainer").post(f"/api/v1/jobs/{job.pk}:cancel")
    assert (response.status_code, response.json()["state"]) == (202, "cancelled")


def test_a_job_that_ended_cannot_be_cancelled(client_for, job):
    problem(client_for("maintainer").post(f"/api/v1/jobs/{job.pk}:cancel"), 409, "LAKE_JOB_STATE")


def test_a_conflict_shows_its_facts(client_for, conflict):
    body = client_for("viewer").get(f"/api/v1/conflicts/{conflict.pk}/").json()
    assert body["facts"] == {"rule": "added_files"}
    [row] = client_for("viewer").get("/api/v1/conflicts/").json()["items"]
    assert "facts" not in row
