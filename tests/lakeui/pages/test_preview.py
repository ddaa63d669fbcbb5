"""Rows of a table on a page: requested from a worker, awaited, and shown with their age."""

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from engine.schema.types import LONG, StructField, StructType
from lakeui.catalog.models import Preview
from tests.lakeui.factories import make_commit

HTMX = {"HX-Request": "true"}


@pytest.fixture
def address(lake):
    return f"/tables/{lake.table.pk}/preview/"


def _create_preview(lake, **fields):
    now = timezone.now()
    return Preview.objects.create(**{"table": lake.table, "version": 3, "asked_at": now} | fields)


def test_asking_leaves_a_request_and_the_page_waits(client_for, lake, address):
    client = client_for("viewer")
    response = client.post(address, {"version": "2"}, follow=True)
    assert response.redirect_chain == [(f"{address}?version=2", 302)]
    assert "A worker is reading" in response.text
    assert Preview.objects.get().version == 2
    assert client.get(f"{address}?version=2", headers=HTMX).status_code == 200


def test_the_page_leads_to_its_json_once_there_is_any(client_for, lake, address):
    client = client_for("viewer")
    twin = f"/api/v1{address}?version=3"
    assert twin not in client.get(f"{address}?version=3").text
    _create_preview(lake, read_at=timezone.now())
    assert twin in client.get(f"{address}?version=3").text
    assert client.get(twin).status_code == 200


def test_rows_show_with_their_age_and_polling_ends(client_for, lake, address):
    columns = [{"name": "id", "type": "long"}, {"name": "<b>", "type": "string"}]
    _create_preview(lake, read_at=timezone.now(), columns=columns, rows=[["41", None]])
    response = client_for("viewer").get(address, headers=HTMX)
    assert response.status_code == 286
    assert "&lt;b&gt;" in response.text
    assert "41" in response.text
    assert "null" in response.text
    assert "1 row, read" in response.text
    assert '<td class="mono num">41</td>' in response.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"asked_at": timezone.now() - timedelta(minutes=2)}, "No worker answered"),
        ({"read_at": timezone.now(), "error_code": "LAKE_X", "error_message": "Why."}, "LAKE_X"),
        ({"read_at": timezone.now()}, "This version holds none"),
    ],
)
def test_each_way_it_can_end_is_shown(client_for, lake, address, fields, said):
    _create_preview(lake, **fields)
    response = client_for("viewer").get(address)
    assert said in response.text
    assert "hx-get" not in response.text.split('id="preview"')[1][:200]


def test_a_stranger_can_ask_for_nothing(client_for, lake, address):
    assert client_for("stranger").post(address, {"version": "3"}).status_code == 404
    assert not Preview.objects.exists()


def test_rows_that_deletion_vectors_hide_are_counted(client_for, lake, address):
    _create_preview(
        lake, read_at=timezone.now(), columns=[{"name": "id", "type": "long"}], rows=[["41"]],
        row_count=900, file_count=3, marked_rows=7,
    )  # fmt: skip
    body = client_for("viewer").get(address).text
    assert "of 900 in 3 files" in body
    assert "7 rows that deletion vectors hide are left out" in body


def test_the_read_rows_can_be_downloaded(client_for, lake, address):
    columns = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
    _create_preview(
        lake, read_at=timezone.now(), columns=columns, rows=[["41", "=1+1"], ["42", None]]
    )
    answer = client_for("viewer").get(f"{address}?version=3&export=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines == ["id,note", "41,'=1+1", "42,"]


def test_a_vacuum_after_a_version_is_shown_before_the_version_is_read(client_for, lake, address):
    make_commit(lake.table, 4, "VACUUM END")
    lake.table.version = 4
    lake.table.save()
    assert "A VACUUM ran later" in client_for("viewer").get(f"{address}?version=2").text
    assert "A VACUUM ran later" not in client_for("viewer").get(f"{address}?version=4").text


def test_rows_of_a_condition_are_read_and_kept_apart(client_for, lake, address):
    client = client_for("viewer")
    query = "version=3&where=id+%3D+41+AND+name+%3C%3E+%27a%26b%27"
    _create_preview(lake, read_at=timezone.now(), columns=[], rows=[["all"]])
    response = client.post(address, {"version": "3", "where": " id = 41 AND name <> 'a&b' "})
    assert response.headers["Location"] == f"{address}?{query}"
    asked = Preview.objects.get(where="id = 41 AND name <> 'a&b'")
    assert asked.read_at is None
    page = client.get(f"{address}?{query}").text
    assert "A worker is reading" in page
    assert f'hx-get="{address}?{query.replace("&", "&amp;")}"' in page
    asked.read_at = timezone.now()
    asked.save()
    assert "None of this version matches the condition" in client.get(f"{address}?{query}").text
    assert "all" in client.get(f"{address}?version=3").text


def test_an_unrealistic_condition_is_not_found(client_for, address):
    assert client_for("viewer").get(address, {"where": "x" * 2001}).status_code == 404


@pytest.mark.parametrize(
    ("sql", "page"),
    [
        ("SELECT * FROM {} AS x WHERE x.id = 41 AND x.name = 'a'", "preview/?where=id+%3D+41+AND+name+%3D+%27a%27"),
        ("SELECT count(*) FROM {}", "preview/"),
        ("WITH c AS (SELECT 1) SELECT * FROM c, {}", "preview/"),
        ("DESCRIBE HISTORY {} LIMIT 5", "history/"),
        ("SHOW TBLPROPERTIES {}", ""),
        ("DESC {}", "schema/"),
    ],
)  # fmt: skip
def test_a_statement_that_reads_leads_to_the_page_with_its_answer(client_for, lake, sql, page):
    text = sql.replace("{}", lake.table.name)
    response = client_for("owner").get("/jobs/new/", {"table": lake.table.pk, "sql": text})
    assert f'href="/tables/{lake.table.pk}/{page}">Look there</a>' in response.text.replace(
        "&#x27;", "'"
    )


def test_no_link_leads_to_a_hidden_or_missing_table(client_for, lake):
    sql = "SELECT * FROM another.one"
    response = client_for("owner").get("/jobs/new/", {"table": lake.table.pk, "sql": sql})
    assert "it only reads, and jobs write" in response.text
    assert "Look there" not in response.text


def test_columns_are_chosen_and_the_page_sorts_the_rows_read(client_for, lake, address):
    client = client_for("viewer")
    form = {"version": "3", "columns": "name, `a,b`", "where": ""}
    response = client.post(address, form)
    assert response.headers["Location"] == f"{address}?version=3&columns=name%2C+%60a%2Cb%60"
    asked = Preview.objects.get()
    assert asked.wanted == ["name", "a,b"]
    columns = [{"name": "id", "type": "long"}, {"name": "at", "type": "string"}]
    rows = [["10", "b"], ["9", None], [None, "a"]]
    Preview.objects.filter(pk=asked.pk).update(read_at=timezone.now(), columns=columns, rows=rows)
    page = f"{address}?version=3&columns=name%2C+%60a%2Cb%60"
    for sort, order in (
        ("id", ["null", "9", "10"]), ("-id", ["10", "9", "null"]),
        ("at", ["9", "null", "10"]), ("nowhere", ["10", "9", "null"]),
    ):  # fmt: skip
        text = client.get(f"{page}&sort={sort}").text
        cells = re.findall(r'<td class="mono num">(?:<span\s+class="none">)?(\w+)', text)
        assert cells == order
    assert 'aria-sort="descending"' in client.get(f"{page}&sort=-id").text


def test_the_profile_of_a_column_is_requested_beside_the_rows(client_for, lake, address):
    client = client_for("viewer")
    columns = [{"name": "id", "type": "long"}]
    _create_preview(lake, read_at=timezone.now(), columns=columns, rows=[["41"]])
    assert 'name="profile" value="id"' in client.get(f"{address}?version=3").text
    response = client.post(address, {"version": "3", "profile": "id"}, follow=True)
    assert response.redirect_chain == [(f"{address}?version=3&profile=id", 302)]
    assert "A worker is reading the" in response.text
    asked = Preview.objects.get(profiled="id")
    sums = {"rows": 9, "nulls": 1, "distinct": 8, "least": "3", "greatest": "77", "is_whole": True}
    Preview.objects.filter(pk=asked.pk).update(read_at=timezone.now(), answer=sums)
    page = client.get(f"{address}?version=3&profile=id", headers=HTMX)
    assert page.status_code == 286
    for said in ("Profile of", "77", "All rows", "41"):
        assert said in page.text


def test_a_form_uses_its_own_values_and_not_those_of_its_address(client_for, lake, address):
    """The address has another version, another column's profile, and no condition."""
    client, before = client_for("viewer"), f"{address}?version=3&where=id+%3D+41&profile=id&sort=id"
    form = {"version": "2", "where": "", "columns": "", "sort": "id"}
    response = client.post(before, form | {"profile": ["id", "name"]})  # the last is the button's
    assert response.headers["Location"] == f"{address}?version=2&profile=name&sort=id"
    assert Preview.objects.get().profiled == "name"
    response = client.post(before, form | {"profile": "id", "ask": "rows"})
    assert response.headers["Location"] == f"{address}?version=2&profile=id&sort=id"
    asked = Preview.objects.get(profiled="")
    assert (asked.version, asked.where) == (2, "")


def test_a_condition_that_does_not_parse_is_reported_at_its_field(client_for, lake, address):
    lake.table.schema = json.loads(StructType((StructField("id", LONG),)).to_json())
    lake.table.save()
    page = client_for("viewer").post(address, {"version": "3", "where": "id = = 3"}, follow=True)
    assert "The condition is not valid" in page.text
    assert 'value="id = = 3"' in page.text
    assert not Preview.objects.exists()
    later = client_for("viewer").post(
        address, {"version": "3", "where": "gone_column = 3"}, follow=True
    )
    assert "A worker is reading" in later.text


def test_columns_that_begin_with_a_sign_are_sorted_by_the_links_at_their_heads(
    client_for, lake, address
):
    names = ["x", "-x", "+x"]
    columns = [{"name": name, "type": "long"} for name in names]
    rows = [["1", "3", "2"], ["2", "1", "3"], ["3", "2", "1"]]
    _create_preview(lake, columns=columns, rows=rows, read_at=timezone.now())
    client = client_for("viewer")
    for place in range(3):
        page = client.get(address).context["columns"]
        for order in (["1", "2", "3"], ["3", "2", "1"]):
            shown = client.get(f"{address.partition('?')[0]}{page[place].address}").context
            assert [line[place][0] for line in shown["lines"]] == order
            page = shown["columns"]
