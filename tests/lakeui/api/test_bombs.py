# ruff: noqa: S608 - statements are what is tested
"""Small requests with huge answers: refused by name, never a 500."""

import pytest

from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem
from tests.lakeui.conflicts.histories import SCHEMA

READ = "id IN (SELECT id FROM sales.orders WHERE "
SQL = {
    "nested subqueries": f"DELETE FROM sales.orders WHERE {READ * 500}1=1{')' * 500}",
    "unions": f"INSERT INTO sales.orders SELECT 1{' UNION SELECT 1' * 3900}",
    "joins": "INSERT INTO sales.orders SELECT * FROM a" + " CROSS JOIN a" * 3000,
    "commas": "INSERT INTO sales.orders SELECT * FROM a" + ", a" * 5000,
    "brackets": f"DELETE FROM sales.orders WHERE {'(' * 9000}1=1{')' * 9000}",
    "nots": f"DELETE FROM sales.orders WHERE {'NOT ' * 20000}true",
    "steps": "OPTIMIZE sales.orders;" * 4000,
}


@pytest.mark.parametrize("sql", SQL.values(), ids=SQL)
def test_a_statement_that_would_grow_is_refused(client_for, table, sql):
    table.schema = SCHEMA
    table.save()
    path = f"/api/v1/tables/{table.pk}/jobs/"
    problem(client_for("admin").post(path, {"sql": sql}, format="json"), 422)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (f"tables/?q={'a' * 60_000}", "q"),
        (f"tables/{{table}}/versions/?q={'%25' * 20_000}", "q"),
        (f"tables/{{table}}/versions/?partition={','.join(['a=1'] * 3000)}", "partition"),
        ("jobs/?since=0001-01-01T00:00:00%2B14:00", "since"),
        ("jobs/?until=9999-12-31T23:59:59-14:00", "until"),
        ("conflicts/?since=9999-99-99T00:00:00Z", "since"),
        ("audit/?since=0001-01-01T00:00:00%2B23:59", "since"),
    ],
)
def test_a_filter_that_no_database_accepts_is_refused_by_its_name(client_for, table, query, field):
    answer = client_for("admin").get(f"/api/v1/{query.format(table=table.pk)}")
    assert [error["field"] for error in problem(answer, 422)["errors"]] == [field]


def test_a_page_shows_such_a_filter_as_a_fault_too(client_for, table):
    assert client_for("admin").get("/tables/", {"q": "a" * 60_000}).status_code < 500
    assert (
        client_for("admin").get("/jobs/", {"since": "0001-01-01T00:00:00+14:00"}).status_code < 500
    )


@pytest.mark.parametrize(
    "address", ["/api/v1/tables/1/grants/a%00b/", "/search/?q=%00", "/conflicts/%00/"]
)
def test_an_address_with_a_character_that_no_database_accepts_is_refused(client_for, address):
    answer = client_for("admin").get(address)
    assert answer.status_code == 400
    assert answer.headers["X-Request-ID"]
