"""The schema tab: everything the log says of columns, keys beside it, and what versions changed."""

import json

import pytest
from auditlog.models import LogEntry

from lakeui.catalog.models import TableKey
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


def _defining(schema, **properties):
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
        raw = _defining(SCHEMA, **properties)
        make_commit(lake.table, version, "SET TBLPROPERTIES", changes_metadata=True, raw=raw)
    return lake.table


def test_the_page_says_all_that_the_log_says_of_a_column(as_, table):
    body = as_("viewer").get(f"/tables/{table.pk}/schema/").content.decode()
    for said in ("in cents", "col-4f1", "a * 2", "total &gt; 0", "from 1 by 2", "discount &gt;= 0"):
        assert said in body
    assert 'class="depth-1"><code title="lines.sku">sku</code>' in body
    assert "Declare a key" not in body


def test_the_rest_twin_holds_the_same(as_, table):
    body = as_("viewer").get(f"/api/v1/tables/{table.pk}/schema/").json()
    [total] = [column for column in body["columns"] if column["path"] == "total"]
    assert (total["mapping_id"], total["physical_name"]) == (7, "col-4f1")
    assert (total["generated"], total["default"]) == ("a * 2", "0")
    assert body["column_mapping"] == "name"
    assert body["constraints"] == [{"name": "positive", "condition": "discount >= 0"}]


def test_changes_are_told_where_both_sides_are_kept_and_not_guessed_elsewhere(as_, table):
    body = as_("viewer").get(f"/api/v1/tables/{table.pk}/schema/").json()
    newest, first = body["changes"]
    assert newest["version"] == 5
    came = [line for each in newest["sections"] for line in each["lines"] if line["sign"] == "+"]
    assert came == [{"sign": "+", "text": "delta.appendOnly = true"}]
    assert first["sections"] is None


def test_a_maintainer_declares_and_removes_a_key_and_both_are_on_record(as_, people, table):
    client, page = as_("owner"), f"/tables/{table.pk}/schema/"
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


def test_a_fault_is_shown_at_its_field(as_, table):
    answer = as_("owner").post(f"/tables/{table.pk}/schema/", {"sql": "PRIMARY KEY (nowhere)"})
    assert answer.status_code == 400
    assert 'id="id_columns_error"' in answer.content.decode()


@pytest.mark.parametrize("who", ["viewer", "operator"])
def test_others_declare_nothing(as_, table, who):
    answer = as_(who).post(f"/tables/{table.pk}/schema/", {"columns": "order_id"})
    assert answer.status_code == 403
    assert not TableKey.objects.exists()


def test_nothing_is_declared_while_read_only(as_, table, settings):
    settings.READ_ONLY = True
    answer = as_("owner").post(f"/tables/{table.pk}/schema/", {"columns": "order_id"})
    assert answer.status_code == 403
    assert not TableKey.objects.exists()


def test_keys_come_and_go_over_rest(as_, table):
    client, path = as_("owner"), f"/api/v1/tables/{table.pk}/keys/"
    wanted = {"sql": "CONSTRAINT c FOREIGN KEY (customer_id) REFERENCES crm.customers"}
    made = client.post(path, wanted, content_type="application/json")
    assert made.status_code == 201
    assert made.json()["enforced"] is False
    assert made.json()["references"] == "crm.customers"
    assert [key["name"] for key in client.get(path).json()["items"]] == ["c"]
    assert client.delete(f"{path}{made.json()['id']}/").status_code == 204
    assert client.get(path).json()["items"] == []


def test_columns_export_as_csv(as_, table):
    answer = as_("viewer").get(f"/tables/{table.pk}/schema/?export=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].startswith("path,type,nullable")
    assert any(line.startswith("lines.sku,string,False") for line in lines)
