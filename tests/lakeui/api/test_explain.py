"""Pasted errors over REST."""

import pytest

from lakeui.conflicts.models import Conflict
from tests.lakeui.api.problem import problem

TEXT = "[DELTA_CONCURRENT_APPEND] Transaction conflict detected. A concurrent DELETE added data to table sales.orders committed at version 2."
PATH = "/api/v1/conflicts/explain/"


def test_an_error_is_explained_and_tied_to_the_version(as_, table):
    body = as_("viewer").post(PATH, {"text": TEXT}, format="json").json()
    assert body["conflict"]["code"] == "DELTA_CONCURRENT_APPEND"
    assert (body["table_id"], body["winning_version"]) == (table.pk, 2)
    assert not Conflict.objects.exists()


def test_a_stranger_learns_nothing_of_the_table(as_, table):
    body = as_("stranger").post(PATH, {"text": TEXT}, format="json").json()
    assert (body["table_id"], body["found_by"]) == (None, None)
    problem(as_("stranger").post(PATH, {"text": TEXT, "table": "sales.orders"}, format="json"), 422)


def test_a_pipeline_reports_its_own(as_, table):
    response = as_("operator").post(PATH, {"text": TEXT, "record": True}, format="json")
    assert response.status_code == 201
    kept = Conflict.objects.get()
    assert (kept.kind, kept.table, kept.winning_version) == ("reported", table, 2)
    assert response.headers["Location"].endswith(f"/conflicts/{kept.pk}/")


def test_a_report_without_a_conflict_is_not_kept(as_, table):
    response = as_("operator").post(PATH, {"text": "hello", "record": True}, format="json")
    assert (response.status_code, response.json()["conflict_id"]) == (200, None)


def test_who_may_only_look_may_not_record(as_, table):
    problem(as_("viewer").post(PATH, {"text": TEXT, "record": True}, format="json"), 403)


def test_read_only_installations_explain_and_keep_nothing(as_, table, settings):
    settings.READ_ONLY = True
    assert as_("operator").post(PATH, {"text": TEXT}, format="json").status_code == 200
    recorded = as_("operator").post(PATH, {"text": TEXT, "record": True}, format="json")
    problem(recorded, 403, "READ_ONLY")


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": "  "}, {"text": 5, "table": "x"}])
def test_nothing_to_explain_is_a_fault(as_, body):
    problem(as_("viewer").post(PATH, body, format="json"), 422)
