"""Rows that differ between two versions on a page: read by a worker, filtered, paged, exported."""

import json

import pytest
from django.utils import timezone

from engine.schema.types import LONG, StructField, StructType
from lakeui.catalog.models import Preview, TableKey
from tests.lakeui.factories import make_commit

HTMX = {"HX-Request": "true"}
COLUMNS = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
ROWS = [
    {"change": "changed", "before": ["1", "a"], "after": ["1", "<b>"], "changed": ["name"]},
    {"change": "removed", "before": ["2", None], "after": None, "changed": []},
    {"change": "added", "before": None, "after": ["3", "=1+1"], "changed": []},
]
ANSWER = {
    "compared_by": "files", "changed": 1, "removed": 1, "added": 1, "is_whole": True,
    "repeated_keys": False, "dropped_columns": [],
}  # fmt: skip


@pytest.fixture
def address(lake):
    return f"/tables/{lake.table.pk}/diff/1...3/rows/"


def create_comparison(lake, **fields):
    now = timezone.now()
    given = {"table": lake.table, "older_version": 1, "version": 3, "asked_at": now, "read_at": now}
    read = {"columns": COLUMNS, "rows": ROWS, "answer": ANSWER, "file_count": 2}
    return Preview.objects.create(**given | read | fields)


def test_the_pages_of_versions_lead_to_the_rows_that_differ(client_for, lake, address):
    client, table = client_for("viewer"), f"/tables/{lake.table.pk}/"
    assert address in client.get(f"{table}diff/1...3/").text
    assert f"{table}diff/2...3/rows/" in client.get(f"{table}history/3/").text
    assert f"{table}diff/2...3/rows/" in client.get(f"{table}history/?open=3").text


def test_asking_leaves_a_request_and_the_page_waits(client_for, lake, address):
    client = client_for("viewer")
    assert "Not compared yet" in client.get(address).text
    form = {"keys": "id, name", "where": "id > 1"}
    response = client.post(address, form, follow=True)
    where = f"{address}?keys=id%2C+name&where=id+%3E+1"
    assert response.redirect_chain == [(where, 302)]
    assert f'hx-get="{where.replace("&", "&amp;")}"' in response.text
    asked = Preview.objects.get()
    assert (asked.older_version, asked.version, asked.keys) == (1, 3, ["id", "name"])
    assert client.get(where, headers=HTMX).status_code == 200


def test_keys_and_a_condition_can_be_removed_again(client_for, address):
    form = {"keys": "", "where": ""}
    response = client_for("viewer").post(f"{address}?keys=id&where=id+%3E+1", form)
    assert response.headers["Location"] == f"{address}?keys="
    asked = Preview.objects.get()
    assert (asked.keys, asked.where) == ([], "")


def test_old_and_new_values_are_side_by_side(client_for, lake, address):
    create_comparison(lake)
    page = client_for("viewer").get(address, headers=HTMX)
    assert page.status_code == 286
    text = " ".join(page.text.split())
    assert "<del>a</del>" in text
    assert "<ins>&lt;b&gt;</ins>" in text
    assert "− removed" in text
    assert "+ added" in text
    assert "2 files that the versions do not share" in text


def test_one_kind_of_change_is_shown_alone(client_for, lake, address):
    create_comparison(lake)
    text = client_for("viewer").get(f"{address}?show=removed").text
    assert "− removed" in text
    assert "+ added" not in text
    assert 'aria-current="true">Removed' in " ".join(text.split())


def test_rows_are_paged_and_a_cut_list_says_so(client_for, lake, address):
    rows = [dict(ROWS[2], after=[str(n), None]) for n in range(120)]
    answer = ANSWER | {"removed": 0, "changed": 0, "added": 4000, "is_whole": False}
    create_comparison(lake, rows=rows, answer=answer)
    text = " ".join(client_for("viewer").get(f"{address}?page=3").text.split())
    assert "101 to 120 of 120 listed" in text
    assert "Only the first 120 rows are listed: reading stopped at the limit" in text
    assert "4,000" in text


def test_guesses_and_columns_that_were_not_compared_are_named(client_for, lake, address):
    create_comparison(lake, answer=ANSWER | {"repeated_keys": True, "dropped_columns": ["old"]})
    text = client_for("viewer").get(address).text
    assert "have the same key" in text
    assert "<code>old</code>" in text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("DELTA_VERSION_NOT_FOUND", "One of the versions can no longer be"),
        ("DELTA_FILE_NOT_FOUND_DETAILED", "One of the versions can no longer be"),
        ("LAKE_READ_LIMIT", "The rows were"),
    ],
)
def test_each_way_it_can_fail_is_shown(client_for, lake, address, code, said):
    create_comparison(lake, error_code=code, error_message="Why it is so.", answer={}, rows=[])
    text = client_for("viewer").get(address).text
    assert said in text
    assert "Why it is so." in text


def test_a_primary_key_that_was_declared_is_the_key_until_another_is_given(
    client_for, lake, address
):
    TableKey.objects.create(table=lake.table, kind="primary", name="pk", columns=["id"])
    assert 'value="id"' in client_for("viewer").get(address).text
    create_comparison(lake, keys=["id"])
    assert "<del>" in client_for("viewer").get(address).text
    assert "Not compared yet" in client_for("viewer").get(f"{address}?keys=").text


def test_listed_rows_are_exported_with_their_changes(client_for, lake, address):
    create_comparison(lake)
    answer = client_for("viewer").get(f"{address}?export=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines == [
        "_change,_side,id,name", "changed,before,1,a", "changed,after,1,<b>",
        "removed,before,2,", "added,after,3,'=1+1",
    ]  # fmt: skip


def test_a_stranger_can_ask_for_nothing(client_for, lake, address):
    assert client_for("stranger").post(address, {"keys": "id"}).status_code == 404
    assert not Preview.objects.exists()


def test_the_same_rows_are_requested_and_read_over_rest(client_for, lake):
    client, address = client_for("viewer"), f"/api/v1/tables/{lake.table.pk}/diff/1...3/rows/"
    assert client.get(address).status_code == 404
    asked = client.post(f"{address}?keys=id&where=id+%3E+1", content_type="application/json")
    assert (asked.status_code, asked.json()["state"]) == (202, "waiting")
    assert asked.json()["counts"] is None
    create_comparison(lake)
    answer = client.get(address).json()
    told = {name: str(n) for name, n in ANSWER.items() if name in ("changed", "removed", "added")}
    assert answer["counts"] == ANSWER | told  # 64-bit numbers are texts
    assert answer["rows"] == ROWS
    lake.table.schema = json.loads(StructType((StructField("id", LONG),)).to_json())
    lake.table.save()
    refused = client.post(f"{address}?where=id+%3D+%3D", content_type="application/json")
    assert refused.status_code == 422
    assert (
        client.post(f"{address}?keys={'k' * 5000}", content_type="application/json").status_code
        == 422
    )


def test_a_profile_and_columns_are_requested_over_rest(client_for, lake):
    client, address = client_for("viewer"), f"/api/v1/tables/{lake.table.pk}/preview/"
    asked = client.post(f"{address}?profile=id", content_type="application/json").json()
    assert asked["profile"] is None
    sums = {"rows": 9, "nulls": 1, "distinct": None, "least": None, "greatest": None, "is_whole": True}  # fmt: skip
    Preview.objects.update(read_at=timezone.now(), answer=sums)
    told = sums | {"rows": "9", "nulls": "1"}  # 64-bit numbers are texts
    assert client.get(f"{address}?profile=id").json()["profile"] == told
    assert (
        client.post(f"{address}?columns=id,name", content_type="application/json").status_code
        == 202
    )
    assert Preview.objects.get(profiled="").wanted == ["id", "name"]


def test_a_version_that_vacuum_took_files_from_is_still_linked(client_for, lake, address):
    make_commit(lake.table, 4, "VACUUM END")
    assert client_for("viewer").get(address).status_code == 200


def test_a_column_named_like_an_added_one_is_exported_beside_it(client_for, lake, address):
    create_comparison(
        lake, columns=[COLUMNS[0], {"name": "_change", "type": "string"}], rows=ROWS[1:]
    )
    rows = json.loads(
        b"".join(client_for("viewer").get(f"{address}?export=json").streaming_content)
    )
    assert [row["__change"] for row in rows] == ["removed", "added"]
    assert [row["_change"] for row in rows] == [None, "=1+1"]
