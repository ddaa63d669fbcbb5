"""New tables over REST: created by a job from an uploaded file, or registered."""

from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection

from engine.log.segment import check_log
from engine.schema.types import INTEGER, StructField, StructType
from engine.table import DeltaTable
from lakeui.catalog import registration
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem
from tests.lakeui.conflicts.histories import SCHEMA
from workers.mirror import mirror_table


def csv(name="rows.csv", content=b"id\n1\n"):
    return {"file": SimpleUploadedFile(name, content)}


def test_a_file_is_sent_and_a_table_made_of_it(client_for):
    caller = client_for("maintainer")
    sent = caller.post("/api/v1/uploads/", csv(), format="multipart").json()
    assert (sent["format"], sent["size_bytes"]) == ("csv", 5)
    source = {"kind": "files", "uri": sent["uri"], "format": "csv", "header": True}
    body = {"name": "new.one", "create": {"source": source}}
    response = caller.post("/api/v1/tables/", body, format="json")
    assert response.status_code == 202, response.content
    made = Table.objects.get(name="new.one")
    assert (made.version, Job.objects.get().kind) == (None, "create")
    assert response.headers["Location"].endswith(f"/jobs/{Job.objects.get().pk}/")


def test_a_clone_is_requested_under_a_new_name(client_for, table):
    body = {"name": "new.clone", "clone": {"source_table": table.name}}
    response = client_for("maintainer").post("/api/v1/tables/", body, format="json")
    assert response.status_code == 202, response.content
    assert Job.objects.get().statement == f"CREATE TABLE new.clone SHALLOW CLONE {table.name}"
    body = {"name": "new.other", "clone": {"source_table": "no.such"}}
    problem(client_for("maintainer").post("/api/v1/tables/", body, format="json"), 422)
    assert not Table.objects.filter(name="new.other").exists()


@pytest.mark.parametrize(
    "file", [csv("rows.exe"), csv(content=b""), csv("../../evil.sh"), {"file": "no file"}, {}]
)
def test_a_file_that_cannot_be_loaded_is_refused(client_for, file):
    problem(client_for("operator").post("/api/v1/uploads/", file, format="multipart"), 422)


def test_a_guest_with_the_role_viewer_sends_no_files(guest, client):
    client.force_login(guest)
    problem(client.post("/api/v1/uploads/", csv()), 403)


def test_an_existing_name_is_a_conflict(client_for, table):
    body = {"name": table.name, "create": {"schema": SCHEMA}}
    response = client_for("admin").post("/api/v1/tables/", body, format="json")
    problem(response, 409, "DELTA_TABLE_ALREADY_EXISTS")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "uri"),
        ({"uri": "/x", "create": {}}, "uri"),
        ({"create": {}, "clone": {}, "name": "x"}, "uri"),
        ({"clone": {"source_table": "x"}}, "name"),
        ({"create": {"schema": SCHEMA}}, "name"),
        ({"name": "../x", "create": {"schema": SCHEMA}}, "name"),
        ({"name": "x", "create": []}, "create"),
    ],
)
def test_a_request_at_fault_names_the_field(client_for, body, field):
    faults = problem(client_for("admin").post("/api/v1/tables/", body, format="json"), 422)[
        "errors"
    ]
    assert field in {fault["field"] for fault in faults}


@pytest.mark.parametrize("uri", ["/etc", "s3://evil/x", "http://169.254.169.254/", "file:///etc"])
def test_places_outside_the_roots_are_refused_at_their_field(client_for, uri):
    refused = problem(client_for("admin").post("/api/v1/tables/", {"uri": uri}, format="json"), 422)
    (fault,) = refused["errors"]
    assert (fault["field"], fault["remedy"]) == ("uri", refused["remedy"])
    assert fault["remedy"]
    assert not Table.objects.exists()


def test_a_job_outside_the_roots_names_the_offending_part(client_for, table):
    address = f"/api/v1/tables/{table.pk}/jobs/"
    sql = (
        f"INSERT INTO {table.name} BY NAME SELECT * FROM read_files('/etc/passwd', format => 'csv')"  # noqa: S608
    )
    refused = problem(client_for("admin").post(address, {"sql": sql}, format="json"), 422)
    (fault,) = refused["errors"]
    assert (refused["code"], fault["field"]) == ("LAKE_PATH_OUTSIDE_ROOT", "source.uri")
    assert fault["remedy"] == "Ask an administrator to add its root to SOURCE_ROOTS."
    Table.objects.update(uri="/elsewhere")
    refused = problem(client_for("admin").post(address, {"kind": "optimize"}, format="json"), 422)
    assert [error["field"] for error in refused["errors"]] == ["table"]


def test_an_existing_table_is_registered_at_once_and_its_log_read_by_a_worker(client_for):
    place = Path(settings.LAKE_HOME) / "rest_registered"
    DeltaTable.create(str(place), StructType((StructField("id", INTEGER),)))
    response = client_for("maintainer").post("/api/v1/tables/", {"uri": str(place)}, format="json")
    assert response.status_code == 201, response.content
    body = response.json()
    assert (body["name"], body["version"], body["health"]) == ("rest_registered", None, "pending")
    assert (body["sync"]["stage"], body["sync"]["started_at"]) == (None, None)
    assert response.headers["Location"].endswith(f"/tables/{body['id']}/")
    mirror_table(body["id"])
    body = client_for("viewer").get(response.headers["Location"]).json()
    assert (body["version"], body["sync"]) == (0, None)
    again = client_for("maintainer").post("/api/v1/tables/", {"uri": str(place)}, format="json")
    problem(again, 409, "DELTA_TABLE_ALREADY_EXISTS")


@pytest.mark.django_db(transaction=True)
def test_a_slow_store_of_a_new_table_delays_no_other_request(client_for, monkeypatch):
    """A database that allows one writer at a time would be blocked while a store does not answer."""
    place, waits = Path(settings.LAKE_HOME) / "rest_once", []
    DeltaTable.create(str(place), StructType((StructField("id", INTEGER),)))

    def look(store):
        waits.append(connection.in_atomic_block)
        check_log(store)

    monkeypatch.setattr(registration, "check_log", look)
    body, key = {"uri": str(place)}, {"Idempotency-Key": "once"}
    caller = client_for("maintainer")
    first, again = (
        caller.post("/api/v1/tables/", body, format="json", headers=key) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.json()["id"], waits) == (first.json()["id"], [False])


def test_a_place_without_a_log_is_not_found(client_for):
    place = Path(settings.LAKE_HOME) / "rest_empty"
    response = client_for("maintainer").post("/api/v1/tables/", {"uri": str(place)}, format="json")
    problem(response, 404, "DELTA_TABLE_NOT_FOUND")
