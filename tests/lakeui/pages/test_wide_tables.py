"""Tables of very many columns: pages show some of them, say so, and find the others."""

import json

import pytest
from django.contrib.auth.models import User

from lakeui.pages.tables.isolation import COLUMNS_SUGGESTED
from lakeui.pages.tables.schema import COLUMNS_A_PAGE
from tests.lakeui.factories import make_commit, make_table

MANY = 10_000
KIB = 1024


def wide(count):
    """Return a table in which every tenth column is a struct of one field."""
    fields = [
        {"name": f"column_{n:05}", "type": "long", "nullable": True, "metadata": {}}
        for n in range(count)
    ]
    inner = {"name": "inner", "type": "string", "nullable": False, "metadata": {}}
    for field in fields[::10]:
        field["type"] = {"type": "struct", "fields": [inner]}
    return {"type": "struct", "fields": fields}


@pytest.fixture
def table(db):
    made = make_table("wide", schema=wide(1000), version=3)
    for version in range(4):
        make_commit(made, version, "WRITE" if version else "CREATE TABLE")
    return made


def page(as_, table, path=""):
    return as_("owner").get(f"/tables/{table.pk}/{path}").content.decode()


@pytest.mark.timeout(120)
def test_no_page_and_no_answer_grows_with_the_number_of_columns(client_for, people, table):
    table.schema = wide(MANY)
    table.save()
    User.objects.filter(pk=people["owner"].pk).update(is_staff=True, is_superuser=True)
    client, own, rest = client_for("owner"), f"/tables/{table.pk}/", f"/api/v1/tables/{table.pk}/"
    paths = [
        "/", "/tables/", own, f"{own}schema/", f"{own}schema/?q=column_49", f"{own}history/",
        f"{own}history/3/", f"{own}diff/1...3/", f"{own}concurrency/",
        f"{own}isolation/?level=Serializable", f"{own}eligibility/", f"{own}files/",
        f"{own}preview/", f"{own}what-if/?level=Serializable", f"/jobs/new/?table={table.pk}",
        f"/jobs/new/?table={table.pk}&kind=merge", "/schedules/new/", "/api/v1/tables/", rest,
        f"{rest}schema/", f"{rest}columns/?q=9&page_size=500", f"{rest}diff/1...3/",
        f"{rest}isolation/?level=Serializable", f"{rest}eligibility/",
        f"{rest}what-if/?level=Serializable", f"/admin/catalog/table/{table.pk}/change/",
    ]  # fmt: skip
    sizes = {}
    for path in paths:
        response = client.get(path)
        assert response.status_code == 200, path
        sizes[path] = len(response.content)
    assert {path: size for path, size in sizes.items() if size > 200 * KIB} == {}


def test_the_schema_page_shows_a_part_and_says_which(client_for, table):
    body = page(client_for, table, "schema/")
    assert body.count('<th scope="row"') == COLUMNS_A_PAGE
    assert "1 to 200 of 1,100 columns" in " ".join(body.split())
    assert "page 1 of 6" in " ".join(body.split())
    last = page(client_for, table, "schema/?page=6")
    assert "column_00999" in last
    assert "1,001 to 1,100 of 1,100 columns" in " ".join(last.split())


def test_columns_are_found_by_a_part_of_their_dotted_name(client_for, table):
    body = " ".join(page(client_for, table, "schema/?q=00990.IN").split())
    assert body.count('<th scope="row"') == 1
    assert "column_00990.inner" in body
    assert "1 to 1 of 1 column that match" in body
    assert "All 1,100 columns" in body
    assert "/columns/?q=00990.IN" in body
    assert "No column name contains" in " ".join(
        page(client_for, table, "schema/?q=nowhere").split()
    )


def test_a_schema_that_fits_has_neither_pages_nor_a_search(client_for, lake):
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/schema/").content.decode()
    assert "Part of a column" not in body
    assert "Pages of" not in body


def test_the_export_holds_every_column_that_matches(client_for, table):
    client = client_for("viewer")
    whole = client.get(f"/tables/{table.pk}/schema/?export=csv")
    assert len(b"".join(whole.streaming_content).splitlines()) == 1101
    some = client.get(f"/tables/{table.pk}/schema/?export=json&q=inner")
    assert len(json.loads(b"".join(some.streaming_content))) == 100


def test_rest_cuts_the_columns_and_gives_the_rest_in_pages(client_for, table):
    client, path = client_for("viewer"), f"/api/v1/tables/{table.pk}/"
    defined = client.get(f"{path}schema/").json()
    assert (len(defined["columns"]), defined["column_count"]) == (500, 1100)
    whole = client.get(path).json()
    assert (len(whole["schema"]["fields"]), whole["column_count"]) == (500, 1000)
    paths, token = [], ""
    while token is not None:
        body = client.get(f"{path}columns/?page_size=500&page_token={token}").json()
        paths += [column["path"] for column in body["items"]]
        token = body["next_page_token"]
    assert len(set(paths)) == len(paths) == 1100
    assert paths[:2] == ["column_00000", "column_00000.inner"]
    some = client.get(f"{path}columns/?q=99.x").json()
    assert some == {"items": [], "next_page_token": None}
    assert client.get(f"{path}columns/?nope=1").status_code == 422
    assert client_for("stranger").get(f"{path}columns/").status_code == 404


def test_suggested_columns_are_some_of_them_and_any_may_be_named(client_for, table):
    body = " ".join(page(client_for, table, "isolation/").split())
    assert body.count('<option value="column_') == COLUMNS_SUGGESTED
    assert "Of 1,000 columns the first 200 are suggested; any may be named." in body
    body = page(client_for, table, "isolation/?clustering=column_00999")
    assert "There is no column" not in body


def test_a_key_may_name_any_column(client_for, table):
    answer = client_for("owner").post(
        f"/tables/{table.pk}/schema/", {"kind": "primary", "columns": "COLUMN_00999"}
    )
    assert answer.status_code == 302
    body = page(client_for, table, "schema/")
    assert "(column_00999)" in body
    assert "column_00999 may be null" in " ".join(body.split())


@pytest.mark.timeout(30)
def test_a_misspelt_column_of_many_is_answered_with_the_nearest(client_for, table, settings):
    settings.TABLE_ROOTS = ["s3://demo-lake"]
    table.schema = wide(50_000)
    table.save()
    for written, meant in (("colum_49999", "column_49999"), ("kolumn_49001", "column_49001")):
        sql = f"DELETE FROM wide WHERE {written} = 1"  # noqa: S608 - refused
        answer = client_for("owner").post(
            f"/api/v1/tables/{table.pk}/jobs/", {"sql": sql}, content_type="application/json"
        )
        assert answer.status_code == 422
        assert f"Did you mean {meant}?" in answer.json()["detail"] + str(answer.json())
