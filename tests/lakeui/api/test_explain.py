"""Pasted errors over REST."""

import pytest

from lakeui.conflicts.models import Conflict
from tests.lakeui.api.problem import problem

TEXT = "[DELTA_CONCURRENT_APPEND] Transaction conflict detected. A concurrent DELETE added data to table sales.orders committed at version 2."
PATH = "/api/v1/conflicts/explain/"


def test_an_error_is_explained_and_tied_to_the_version(client_for, table):
    body = client_for("viewer").post(PATH, {"text": TEXT}, format="json").json()
    assert body["conflict"]["code"] == "DELTA_CONCURRENT_APPEND"
    assert (body["table_id"], body["winning_version"]) == (table.pk, 2)
    assert not Conflict.objects.exists()


def test_a_stranger_learns_nothing_of_the_table(client_for, table):
    body = client_for("stranger").post(PATH, {"text": TEXT}, format="json").json()
    assert (body["table_id"], body["found_by"]) == (None, None)
    problem(
        client_for("stranger").post(PATH, {"text": TEXT, "table": "sales.orders"}, format="json"),
        422,
    )


def test_a_pipeline_reports_its_own(client_for, table):
    response = client_for("operator").post(PATH, {"text": TEXT, "record": True}, format="json")
    assert response.status_code == 201
    kept = Conflict.objects.get()
    assert (kept.kind, kept.table, kept.winning_version) == ("reported", table, 2)
    assert response.headers["Location"].endswith(f"/conflicts/{kept.pk}/")


def test_a_report_without_a_conflict_is_not_kept(client_for, table):
    response = client_for("operator").post(PATH, {"text": "hello", "record": True}, format="json")
    assert (response.status_code, response.json()["conflict_id"]) == (200, None)


def test_a_viewer_may_not_record(client_for, table):
    problem(client_for("viewer").post(PATH, {"text": TEXT, "record": True}, format="json"), 403)


def test_read_only_installations_explain_and_keep_nothing(client_for, table, settings):
    settings.READ_ONLY = True
    assert client_for("operator").post(PATH, {"text": TEXT}, format="json").status_code == 200
    recorded = client_for("operator").post(PATH, {"text": TEXT, "record": True}, format="json")
    problem(recorded, 403, "READ_ONLY")


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": "  "}, {"text": 5, "table": "x"}])
def test_nothing_to_explain_is_a_fault(client_for, body):
    problem(client_for("viewer").post(PATH, body, format="json"), 422)
