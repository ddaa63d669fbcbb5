"""A database that takes no changes: reading goes on, changing says when to come back."""

import pytest
from django.db import InterfaceError, OperationalError, connection

from lakeui.api.problems import problem_of
from lakeui.catalog.models import Table
from tests.lakeui.api.problem import problem


@pytest.fixture
def read_only_database(db):
    def switch(setting):  # below Django, which has given this transaction up by then
        connection.connection.execute(f"PRAGMA query_only = {setting}")

    if connection.vendor != "sqlite":
        pytest.skip("the switch is SQLite's")
    yield lambda: switch("ON")
    switch("OFF")


def test_reading_goes_on_and_a_change_is_told_when_to_come_back(
    as_, table, job, read_only_database
):
    caller, path = as_("admin"), f"/api/v1/tables/{table.pk}/"
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


@pytest.mark.parametrize("error", [OperationalError("secret"), InterfaceError("secret")])
def test_a_database_that_is_gone_is_not_called_a_fault_of_ours(error):
    shown = problem_of(error)
    assert (shown.status, shown.code, "secret" in shown.detail) == (
        503,
        "DATABASE_UNAVAILABLE",
        False,
    )
