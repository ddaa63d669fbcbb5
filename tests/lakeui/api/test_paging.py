"""Keyset paging: complete, ordered, and stable while rows come and go."""

import pytest

from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem
from tests.lakeui.people import NOON, make_conflict, make_job, make_table


def walk(client, path, size, **filters):
    """Return all pages of a list."""
    pages, token = [], None
    while True:
        query = {"page_size": size, **filters} | ({"page_token": token} if token else {})
        body = client.get(path, query).json()
        pages.append(body["items"])
        token = body["next_page_token"]
        if token is None:
            return pages


@pytest.fixture
def nine_tables(db):
    return [
        make_table(f"t{n}", size_bytes=n % 3, last_commit_at=None if n % 2 else NOON)
        for n in range(9)
    ]


@pytest.mark.parametrize("sort", ["name", "-name", "size", "-size", "last_commit", "-last_commit"])
@pytest.mark.parametrize("size", [1, 2, 9, 500])
def test_pages_together_are_the_list(client_for, nine_tables, sort, size):
    names = [
        row["name"]
        for page in walk(client_for("viewer"), "/api/v1/tables/", size, sort=sort)
        for row in page
    ]
    assert sorted(names) == [f"t{n}" for n in range(9)]
    [whole] = walk(client_for("viewer"), "/api/v1/tables/", 500, sort=sort)
    assert names == [row["name"] for row in whole]


def test_rows_without_a_value_come_before_all_others(client_for, nine_tables):
    [rows] = walk(client_for("viewer"), "/api/v1/tables/", 500, sort="last_commit")
    assert [row["last_commit_at"] is None for row in rows] == [True] * 4 + [False] * 5


def test_a_row_added_meanwhile_moves_nothing(client_for, table):
    caller = client_for("viewer")
    first = caller.get("/api/v1/jobs/", {"page_size": 2})
    jobs = [make_job(table) for _ in range(4)]
    first = caller.get("/api/v1/jobs/", {"page_size": 2}).json()
    make_job(table)
    query = {"page_size": 2, "page_token": first["next_page_token"]}
    second = caller.get("/api/v1/jobs/", query).json()
    seen = [row["id"] for row in first["items"] + second["items"]]
    assert seen == [str(job.pk) for job in reversed(jobs)]


def test_jobs_of_one_moment_are_each_listed_once(client_for, table):
    for _ in range(5):
        make_job(table)
    Job.objects.update(created_at=NOON)
    pages = walk(client_for("viewer"), "/api/v1/jobs/", 2)
    assert len({row["id"] for page in pages for row in page}) == 5


@pytest.mark.parametrize("size", ["0", "-1", "501", "x", "", "1.5", "²", "99999999999"])
def test_a_page_size_out_of_range_is_refused(client_for, table, size):
    [fault] = problem(client_for("viewer").get("/api/v1/tables/", {"page_size": size}), 422)[
        "errors"
    ]
    assert fault["field"] == "page_size"


def test_a_token_belongs_to_its_list_and_filters(client_for, nine_tables):
    caller = client_for("viewer")
    token = caller.get("/api/v1/tables/", {"page_size": 2}).json()["next_page_token"]
    for path, query in [
        ("/api/v1/tables/", {"q": "t"}),
        ("/api/v1/tables/", {"sort": "size"}),
        ("/api/v1/jobs/", {}),
    ]:
        [fault] = problem(caller.get(path, query | {"page_token": token}), 422)["errors"]
        assert fault["field"] == "page_token"


@pytest.mark.parametrize("token", ["x", "", "e30", "a:b:c"])
def test_an_invented_page_token_is_refused_or_means_the_first_page(client_for, nine_tables, token):
    response = client_for("viewer").get("/api/v1/tables/", {"page_token": token})
    assert response.status_code == (422 if token else 200)


def test_a_misspelt_filter_is_a_fault_and_not_a_wider_answer(client_for, table):
    [fault] = problem(client_for("viewer").get("/api/v1/jobs/", {"stat": "failed"}), 422)["errors"]
    assert fault["field"] == "stat"
    assert fault["code"] == "unknown_parameter"


@pytest.mark.parametrize(
    ("path", "query", "count"),
    [
        ("tables/", {"q": "orders"}, 1),
        ("tables/", {"q": "nothing"}, 0),
        ("tables/", {"health": "healthy"}, 1),
        ("tables/", {"level": "Serializable"}, 0),
        ("tables/", {"row_level": "false"}, 1),
        ("tables/{table}/versions/", {"operation": "delete"}, 1),
        ("tables/{table}/versions/", {"user": "ETL"}, 3),
        ("tables/{table}/versions/", {"since": "2026-11-02T13:00:00Z"}, 2),
        ("tables/{table}/versions/", {"until": "2026-11-02T13:00:00Z"}, 1),
        ("tables/{table}/versions/", {"conflict": "true"}, 1),
        ("tables/{table}/versions/", {"conflict": "false"}, 2),
        ("tables/{table}/files/", {"min_size": "150"}, 1),
        ("tables/{table}/files/", {"vectored": "true"}, 0),
        ("jobs/", {"state": "conflicted"}, 1),
        ("jobs/", {"state": "active"}, 0),
        ("jobs/", {"state": ["active", "conflicted"]}, 1),
        ("jobs/", {"kind": "vacuum"}, 0),
        ("jobs/", {"table": "sales.orders", "user": "maintainer"}, 1),
        ("conflicts/", {"pair": "update,delete"}, 1),
        ("conflicts/", {"pair": "UPDATE,WRITE"}, 0),
        ("conflicts/", {"kind": "aborted", "code": "DELTA_CONCURRENT_APPEND"}, 1),
        ("conflicts/", {"exception": "ConcurrentAppendException", "table": "{table}"}, 1),
        ("conflicts/", {"user": "maintainer"}, 1),
    ],
)
def test_filters_narrow_the_list(client_for, table, conflict, path, query, count):
    query = {k: v.format(table=table.pk) if isinstance(v, str) else v for k, v in query.items()}
    response = client_for("viewer").get(f"/api/v1/{path.format(table=table.pk)}", query)
    assert len(response.json()["items"]) == count


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("tables/", {"health": "sick"}),
        ("tables/", {"sort": "password"}),
        ("jobs/", {"state": "dreaming"}),
        ("jobs/", {"since": "yesterday"}),
        ("jobs/", {"kind": "a\0b"}),
        ("conflicts/", {"kind": "x"}),
    ],
)
def test_a_filter_value_that_means_nothing_is_a_fault(client_for, table, path, query):
    [fault] = problem(client_for("viewer").get(f"/api/v1/{path}", query), 422)["errors"]
    assert fault["field"] in query


@pytest.mark.parametrize("path", ["tables/", "jobs/", "conflicts/", "tables/{table}/versions/"])
def test_a_list_costs_the_same_however_long(
    client_for, people, table, conflict, django_assert_max_num_queries, path
):
    for n in range(12):
        more = make_table(f"t{n}")
        make_conflict(table, make_job(table))
        make_job(more, people["maintainer"])  # people are asked for once, if there are any
    caller = client_for("viewer")
    with django_assert_max_num_queries(7) as seen:
        caller.get(f"/api/v1/{path.format(table=table.pk)}", {"page_size": 2})
    few = len(seen.captured_queries)
    with django_assert_max_num_queries(few):
        caller.get(f"/api/v1/{path.format(table=table.pk)}", {"page_size": 50})
