"""A read-only database: reads continue, and changes say when to retry."""

import json

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpResponse
from django.test import Client

from lakeui.api.middleware import RequestIdMiddleware
from lakeui.api.problems import problem_of
from lakeui.catalog.models import Table
from tests.lakeui.api.problem import problem

LATER = {"Retry-After": "5"}


@pytest.fixture
def read_only_database(db):
    def switch(setting):  # below Django, which has given this transaction up by then
        connection.connection.execute(f"PRAGMA query_only = {setting}")

    if connection.vendor != "sqlite":
        pytest.skip("the switch is SQLite's")
    yield lambda: switch("ON")
    switch("OFF")


def test_reads_continue_and_a_change_is_told_when_to_retry(
    client_for, table, job, read_only_database
):
    caller, path = client_for("admin"), f"/api/v1/tables/{table.pk}/"
    read_only_database()
    assert caller.get(path).status_code == 200
    for method, address, body in (
        ("patch", path, {"description": "x"}),
        ("post", f"{path}jobs/", {"kind": "optimize"}),
        ("post", f"/api/v1/jobs/{job.pk}:retry", None),
    ):
        answer = getattr(caller, method)(address, body, format="json", headers={"If-Match": "*"})
        problem(answer, 503, "DATABASE_UNAVAILABLE")
        assert int(answer.headers["Retry-After"]) > 0
    assert Table.objects.get().description == ""


@pytest.fixture
def stale_session(db, settings):
    """Return a browser with a session that can no longer be read."""
    settings.SESSION_ENGINE = "tests.lakeui.api.away_sessions"
    client = Client(raise_request_exception=False)
    client.cookies[settings.SESSION_COOKIE_NAME] = "x" * 32
    return client


def test_an_unreadable_session_is_reported_as_an_unreachable_database(stale_session):
    answer = stale_session.get("/api/v1/tables/")
    problem(answer, 503, "DATABASE_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0


def test_rest_reports_failures_before_any_view_too(rf):
    def fail_view(_):
        return HttpResponse("<h1>The database is unreachable</h1>", status=503, headers=LATER)

    answer = RequestIdMiddleware(fail_view)(rf.get("/api/v1/tables/"))
    assert json.loads(answer.content)["code"] == "DATABASE_UNAVAILABLE"
    assert answer.headers["Retry-After"] == "5"


@pytest.mark.parametrize("path", ["/", "/login/", "/nope/"])
def test_a_page_says_that_the_database_is_away_and_when_to_try_again(stale_session, path):
    answer = stale_session.get(path)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "The database is unreachable" in answer.content.decode()
    assert f'href="{path}"' in answer.content.decode()


def test_a_process_lives_without_its_database(stale_session):
    assert stale_session.get("/livez").status_code == 200


@pytest.mark.parametrize("error", [OperationalError("secret"), InterfaceError("secret")])
def test_an_unreachable_database_is_not_called_a_fault_of_the_server(error):
    shown = problem_of(error)
    assert (shown.status, shown.code, "secret" in shown.detail) == (
        503,
        "DATABASE_UNAVAILABLE",
        False,
    )
