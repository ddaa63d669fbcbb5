"""A statement that names several tables requires access to all of them."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from engine.commands.sql import parse_statement
from lakeui.catalog.command_tables import Reader, names_others
from lakeui.jobs.cancel_retry import retry_job
from lakeui.jobs.command_rules import statement_of
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.models import Job, JobAttempt, JobEvent, Schedule
from lakeui.jobs.schedules import run_now
from lakeui.monitoring.search import search
from tests.lakeui.page_client import PageClient as Client
from tests.lakeui.people import NOON, grant, make_conflict, make_job, make_table, person
from workers.job_tables import other_writers

pytestmark = pytest.mark.django_db

SECRET = "hr.salaries"
SCRIPT = "DELETE FROM sales.orders WHERE a = 1; UPDATE hr.salaries SET a = 2"
MERGE = "MERGE INTO sales.orders USING hr.salaries AS s ON sales.orders.a = s.a WHEN MATCHED THEN DELETE"
NAMES_BOTH = pytest.mark.parametrize("sql", [SCRIPT, MERGE], ids=["script", "merge"])


def _create_job(table, sql, **fields):
    command = parse_statement(sql)
    told = {
        "kind": command.kind,
        "parameters": command.parameters(),
        "statement": statement_of(command, table),
        "state": Job.State.FAILED,
        "error_code": "LAKE_SCRIPT_STEP_FAILED",
        "error_message": f"Step 2 failed: {SECRET} is append-only.",
        "error_facts": {"ended": [{"table": SECRET}]},
        "plan": {"summary": f"Step 2, {SECRET}: 1 file."},
        "finished_at": timezone.now(),
    }
    job = make_job(table, **(told | fields))
    JobEvent.objects.create(job=job, at=NOON, message=f"Step 1 reads version 1 of {SECRET}")
    JobAttempt.objects.filter(job=job).update(message=f"{SECRET} is append-only.")
    return job


def _create_schedule(table, sql, owner):
    command = parse_statement(sql)
    return Schedule.objects.create(
        name="nightly",
        table=table,
        cron="0 3 * * *",
        kind=command.kind,
        parameters=command.parameters(),
        statement=statement_of(command, table),
        owner=owner,
        note=f"The source table {SECRET} does not exist.",
    )


@pytest.fixture
def orders():
    make_table(SECRET)
    return make_table("sales.orders")


@pytest.fixture
def guest(orders):
    """Return a person with every right on the orders and none on the other table."""
    user = person("guest")
    grant(user, orders, "admin")
    return user


def _client(user):
    client = Client()
    client.force_login(user)
    return client


def _places(job, schedule, conflict):
    """Return the pages and the REST addresses that show the job's text to its readers."""
    pages = (
        "/jobs/", f"/jobs/{job.pk}/", "/jobs/?export=csv", f"/jobs/{job.pk}/log/", "/schedules/",
        f"/schedules/{schedule.pk}/edit/", "/schedules/?export=json", f"/search/?q={job.pk}",
        "/search/?q=salaries", "/attention/", f"/conflicts/{conflict.pk}/",
    )  # fmt: skip
    rest = (
        "jobs/", f"jobs/{job.pk}/", f"jobs/{job.pk}/events/", f"tables/{job.table_id}/jobs/",
        "schedules/", f"schedules/{schedule.pk}/", f"search/?q={job.pk}",
        "search/?q=append-only", "attention/", f"conflicts/{conflict.pk}/",
    )  # fmt: skip
    return pages, tuple(f"/api/v1/{path}" for path in rest)


def _read(client, path):
    answer = client.get(path, follow=True)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    # what the reader asked for stands in the page of a search, as they wrote it
    return content.decode().replace("q=salaries", "").replace('value="salaries"', "")


@NAMES_BOTH
def test_nothing_shown_of_a_job_names_a_table_hidden_from_its_reader(orders, guest, sql):
    job, schedule = _create_job(orders, sql), _create_schedule(orders, sql, person("owner"))
    conflict = make_conflict(orders, job)
    client = _client(guest)
    pages, rest = _places(job, schedule, conflict)
    named = [
        path for path in pages + rest if "salaries" in _read(client, path).replace("“salaries”", "")
    ]
    assert named == []
    told = _client(person("ann", "viewer"))
    for path in (f"/jobs/{job.pk}/", f"/jobs/{job.pk}/log/", f"/api/v1/jobs/{job.pk}/"):
        assert SECRET in _read(told, path), "whoever sees all tables reads all of it"


@NAMES_BOTH
def test_its_page_says_that_something_is_kept_back_and_offers_no_second_run(orders, guest, sql):
    page = _read(_client(guest), f"/jobs/{_create_job(orders, sql).pk}/")
    assert "It names tables that you may not see" in page
    assert "Run again" not in page
    assert "Run again" in _read(_client(person("ann", "admin")), f"/jobs/{Job.objects.get().pk}/")


def test_a_statement_on_tables_that_a_guest_sees_is_shown(orders, guest):
    items = make_table("sales.items")
    grant(guest, items, "viewer")
    job = _create_job(
        orders, "DELETE FROM sales.orders; UPDATE sales.items SET a = 2", error_message=""
    )
    told = _client(guest).get(f"/api/v1/jobs/{job.pk}/").json()
    assert "UPDATE sales.items" in told["statement"]
    assert told["parameters"]["steps"]


def test_other_table_names_are_found_wherever_a_statement_can_contain_them(orders):
    for sql in (
        SCRIPT,
        MERGE,
        "DELETE FROM sales.orders WHERE a IN (SELECT a FROM hr.salaries)",
        "INSERT INTO sales.orders SELECT * FROM hr.salaries",
        "INSERT INTO sales.orders BY NAME SELECT * FROM STREAM(hr.salaries)",
        "CREATE TABLE sales.orders SHALLOW CLONE hr.salaries",
    ):
        assert names_others(_create_job(orders, sql)), sql
    assert not names_others(_create_job(orders, "DELETE FROM sales.orders WHERE a = 1"))
    assert names_others(make_job(orders, kind="merge", parameters={"nobody": "knows"}))


@NAMES_BOTH
def test_a_person_who_may_not_read_a_command_cannot_repeat_it(orders, guest, sql):
    with pytest.raises(NotPermittedError) as refused:
        retry_job(_create_job(orders, sql), guest)
    assert "salaries" not in str(refused.value)
    with pytest.raises(NotPermittedError) as refused:
        run_now(_create_schedule(orders, sql, person("owner")), guest)
    assert "salaries" not in str(refused.value)


def test_a_search_does_not_find_by_words_that_are_kept_back(orders, guest):
    job = _create_job(orders, SCRIPT)
    assert search(guest, "salaries").jobs == []
    assert search(person("ann", "viewer"), "salaries").jobs == [job]


def test_a_plan_names_its_writer_without_the_words_that_name_other_tables(orders):
    mine = make_job(orders, state=Job.State.RUNNING)
    running = {"state": Job.State.RUNNING, "finished_at": None}
    _create_job(orders, MERGE, **running)
    _create_job(orders, "DELETE FROM sales.orders WHERE a = 1", **running)
    assert other_writers(mine) == ["merge of sales.orders", "DELETE FROM sales.orders WHERE a = 1"]


def test_a_readers_tables_are_queried_once(orders, guest, django_assert_num_queries):
    jobs = [_create_job(orders, SCRIPT) for _ in range(5)]
    reader = Reader(guest)
    with django_assert_num_queries(2):
        assert not any(reader.may_read(job) for job in jobs)


SUBQUERY = "DELETE FROM sales.orders WHERE a IN (SELECT a FROM hr.salaries WHERE b = 'boss')"


@pytest.mark.parametrize(
    ("sql", "predicate"),
    [
        (SUBQUERY, SUBQUERY.removeprefix("DELETE FROM sales.orders WHERE ")),
        (MERGE, "s.hr_salaries_a = orders.a"),
    ],
    ids=["delete", "merge"],
)
def test_the_condition_of_an_aborted_write_is_shown_to_readers_of_its_statement(
    orders, guest, sql, predicate
):
    job = _create_job(orders, sql, error_message="")
    operation = sql.split()[0]
    facts = {"current": {"operation": operation, "predicate": predicate}}
    lost = make_conflict(
        orders, job=job, current_operation=operation, current_predicate=predicate, facts=facts,
        winning_version=2, occurred_at=timezone.now(),
    )  # fmt: skip
    paths = (
        "/conflicts/", f"/conflicts/{lost.pk}/", "/conflicts/?export=csv", "/conflicts/?export=json",
        "/api/v1/conflicts/", f"/api/v1/conflicts/{lost.pk}/", f"/tables/{orders.pk}/eligibility/",
        f"/api/v1/tables/{orders.pk}/conflicts/", f"/api/v1/tables/{orders.pk}/eligibility/",
    )  # fmt: skip
    told = {path for path in paths if "salaries" in _read(_client(guest), path)}
    assert told == set()
    link, history = f'"/conflicts/{lost.pk}/"', f"/tables/{orders.pk}/history/"
    assert link in _read(_client(guest), history)
    assert link not in _read(_client(guest), f"{history}?q=salaries")
    everybody = _read(_client(person("ann", "viewer")), f"/api/v1/conflicts/{lost.pk}/")
    assert everybody.count(predicate) >= 2
    assert link in _read(_client(User.objects.get(username="ann")), f"{history}?q=salaries")


ASKED = (
    "INSERT INTO sales.orders SELECT * FROM {}",
    "INSERT INTO sales.orders SELECT nowhere FROM {} VERSION AS OF 7",
    "INSERT INTO sales.orders SELECT * FROM STREAM({})",
    "DELETE FROM sales.orders WHERE a IN (SELECT a FROM {})",
    "MERGE INTO sales.orders USING {} AS s ON sales.orders.a = s.a WHEN MATCHED THEN DELETE",
    "CREATE OR REPLACE TABLE sales.orders SHALLOW CLONE {}",
    "OPTIMIZE {}",
    "CREATE TABLE {} (a INT)",
    "OPTIMIZE sales.orders; DELETE FROM {}",
    "OPTIMIZE sales.orders; CREATE TABLE {} (a INT)",
    "OPTIMIZE sales.orders; CREATE TABLE x.y SHALLOW CLONE {}",
)


@pytest.mark.parametrize("sql", ASKED)
@pytest.mark.parametrize("what", ["jobs", "schedules"])
def test_a_hidden_table_is_refused_like_a_missing_one(orders, guest, sql, what):
    words = {"name": "nightly", "cron": "0 3 * * *"} if what == "schedules" else {}

    def request_refusal(name):
        address = f"/api/v1/tables/{orders.pk}/{what}/"
        body = words | {"sql": sql.format(name)}
        answer = _client(guest).post(address, body, content_type="application/json").json()
        return answer["status"], answer["code"], answer["detail"].replace(name, "it")

    assert request_refusal(SECRET) == request_refusal("no.such_table")
    assert request_refusal(SECRET)[0] in (403, 422)
