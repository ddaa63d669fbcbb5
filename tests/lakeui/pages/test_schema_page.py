"""The schema tab: the log's description of columns, their keys, and changes by version."""

import json

import pytest
from auditlog.models import LogEntry

from lakeui.catalog.models import TableKey
from lakeui.jobs.models import Job
from tests.lakeui.factories import SCHEMA, make_commit

MAPPED = {
    "name": "total",
    "type": "long",
    "nullable": False,
    "metadata": {
        "delta.columnMapping.id": 7,
        "delta.columnMapping.physicalName": "col-4f1",
        "delta.generationExpression": "a * 2",
        "CURRENT_DEFAULT": "0",
        "delta.identity.start": 1,
        "delta.identity.step": 2,
        "delta.invariants": json.dumps({"expression": {"expression": "total > 0"}}),
        "comment": "in cents",
    },
}


def _metadata_line(schema, **properties):
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": properties,
    }
    return json.dumps({"metaData": metadata}) + "\n"


@pytest.fixture
def table(lake):
    lake.table.schema = {"type": "struct", "fields": [*SCHEMA["fields"], MAPPED]}
    lake.table.properties = {
        "delta.columnMapping.mode": "name",
        "delta.constraints.positive": "discount >= 0",
    }
    lake.table.version = 5
    lake.table.save()
    for version, properties in ((4, {}), (5, {"delta.appendOnly": "true"})):
        raw = _metadata_line(SCHEMA, **properties)
        make_commit(lake.table, version, "SET TBLPROPERTIES", changes_metadata=True, raw=raw)
    return lake.table


def test_the_page_says_all_that_the_log_says_of_a_column(client_for, table):
    body = client_for("viewer").get(f"/tables/{table.pk}/schema/").content.decode()
    for said in ("in cents", "col-4f1", "a * 2", "total &gt; 0", "from 1 by 2", "discount &gt;= 0"):
        assert said in body
    assert 'class="depth-1"><code title="lines.sku">sku</code>' in body
    assert "Declare a key" not in body


def test_the_rest_twin_holds_the_same(client_for, table):
    body = client_for("viewer").get(f"/api/v1/tables/{table.pk}/schema/").json()
    [total] = [column for column in body["columns"] if column["path"] == "total"]
    assert (total["mapping_id"], total["physical_name"]) == (7, "col-4f1")
    assert (total["generated"], total["default"]) == ("a * 2", "0")
    assert body["column_mapping"] == "name"
    assert body["constraints"] == [{"name": "positive", "condition": "discount >= 0"}]


def test_changes_are_shown_where_both_sides_are_kept_and_not_guessed_elsewhere(client_for, table):
    body = client_for("viewer").get(f"/api/v1/tables/{table.pk}/schema/").json()
    newest, first = body["changes"]
    assert newest["version"] == 5
    came = [
        line for change in newest["sections"] for line in change["lines"] if line["sign"] == "+"
    ]
    assert came == [{"sign": "+", "text": "delta.appendOnly = true"}]
    assert first["sections"] is None


def test_a_maintainer_declares_and_removes_a_key_and_both_are_on_record(client_for, people, table):
    client, page = client_for("owner"), f"/tables/{table.pk}/schema/"
    answer = client.post(page, {"kind": "primary", "columns": "order_id"})
    assert answer.status_code == 302
    body = client.get(page).content.decode()
    assert "not enforced" in body
    assert "(order_id)" in body
    key = TableKey.objects.get()
    assert key.declared_by == people["owner"]
    client.post(f"{page}keys/{key.pk}/remove/")
    assert not TableKey.objects.exists()
    entries = LogEntry.objects.filter(content_type__model="tablekey").order_by("pk")
    assert [entry.action for entry in entries] == [
        LogEntry.Action.CREATE,
        LogEntry.Action.DELETE,
    ]
    assert "key" in client.get("/audit/?thing=tablekey").content.decode()


def test_a_fault_is_shown_at_its_field(client_for, table):
    answer = client_for("owner").post(
        f"/tables/{table.pk}/schema/", {"sql": "PRIMARY KEY (nowhere)"}
    )
    assert answer.status_code == 400
    assert 'id="id_columns_error"' in answer.content.decode()


@pytest.mark.parametrize("who", ["viewer", "operator"])
def test_people_without_the_right_cannot_declare_keys(client_for, table, who):
    answer = client_for(who).post(f"/tables/{table.pk}/schema/", {"columns": "order_id"})
    assert answer.status_code == 403
    assert not TableKey.objects.exists()


def test_nothing_is_declared_while_read_only(client_for, table, settings):
    settings.READ_ONLY = True
    answer = client_for("owner").post(f"/tables/{table.pk}/schema/", {"columns": "order_id"})
    assert answer.status_code == 403
    assert not TableKey.objects.exists()


def test_keys_come_and_go_over_rest(client_for, table):
    client, path = client_for("owner"), f"/api/v1/tables/{table.pk}/keys/"
    body = {"sql": "CONSTRAINT c FOREIGN KEY (customer_id) REFERENCES crm.customers"}
    made = client.post(path, body, content_type="application/json")
    assert made.status_code == 201
    assert made.json()["enforced"] is False
    assert made.json()["references"] == "crm.customers"
    assert [key["name"] for key in client.get(path).json()["items"]] == ["c"]
    assert client.delete(f"{path}{made.json()['id']}/").status_code == 204
    assert client.get(path).json()["items"] == []


def test_columns_export_as_csv(client_for, table):
    answer = client_for("viewer").get(f"/tables/{table.pk}/schema/?export=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].startswith("path,type,nullable")
    assert any(line.startswith("lines.sku,string,False") for line in lines)


def test_a_change_of_settings_is_set_back_by_a_job(client_for, table):
    client = client_for("owner")
    body = client.get(f"/tables/{table.pk}/isolation/").content.decode()
    assert "Settings over time" in body
    assert "delta.appendOnly" in body
    table.properties = {"delta.appendOnly": "true"}
    table.save()
    [change] = client.get(f"/api/v1/tables/{table.pk}/isolation/").json()["history"]
    assert change["changes"] == [{"name": "delta.appendOnly", "old": None, "new": "true"}]
    assert change["is_in_force"]
    [revert] = change["revert"]
    assert revert["kind"] == "unset_properties"
    asked = {
        "table": table.pk,
        "kind": revert["kind"],
        "parameters": json.dumps(revert["parameters"]),
    }
    shown = client.post("/jobs/new/", asked | {"step": "check"}).content.decode()
    assert "UNSET TBLPROPERTIES IF EXISTS (&#x27;delta.appendOnly&#x27;)" in shown
    assert "This changes the metadata" in shown
    wrong = Job.objects.filter(kind="unset_properties")
    assert not wrong.exists()
    named = asked | {"step": "run"}
    assert client.post("/jobs/new/", named).status_code == 302
    assert wrong.get().parameters["keys"] == ["delta.appendOnly"]


def test_irreversible_features_are_named(client_for, table):
    raw = _metadata_line(SCHEMA, **{"delta.columnMapping.mode": "name"})
    make_commit(table, 6, "SET TBLPROPERTIES", changes_metadata=True, raw=raw)
    table.version = 6
    table.save()
    newest = client_for("viewer").get(f"/api/v1/tables/{table.pk}/isolation/").json()["history"][0]
    assert "column mapping cannot be disabled" in newest["obstacle"]
    assert all("columnMapping" not in json.dumps(change) for change in newest["revert"])
