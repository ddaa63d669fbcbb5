"""Overlaps, reordered versions and the forecast over REST."""

import pytest
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem
from tests.lakeui.conflicts.histories import replayable


@pytest.fixture
def history(table):
    """Return the replayable history: a DELETE that did not see a blind append."""
    replayable(table)
    table.commits.update(committed_at=timezone.now(), changes_data=True)
    table.commits.filter(version=1).update(is_blind_append=True, files_added=1, read_version=0)
    table.commits.filter(version=2).update(read_version=0, predicate="part = 'a'")
    return f"/api/v1/tables/{table.pk}/"


def test_the_matrix_has_the_past_overlaps_in_each_cell(client_for, history):
    body = client_for("viewer").get(f"{history}matrix/").json()
    [cell] = [c for c in body["cells"] if (c["current"], c["winner"]) == ("DELETE", "INSERT")]
    assert (cell["overlap_count"], cell["aborted"], cell["verdict"]) == (1, 0, "never")
    assert (body["overlaps"]["total"], body["overlaps"]["commits"]) == (1, 3)


def test_overlaps_are_listed_by_pair_and_paged(client_for, history):
    path = f"{history}overlaps/"
    sides = {"current": "DELETE", "winner": "INSERT"}
    body = client_for("viewer").get(path, sides).json()
    [row] = body["items"]
    assert (row["verdict"], row["version"], row["winning_version"]) == ("passes", 2, 1)
    assert body["next_page_token"] is None
    problem(client_for("viewer").get(path, {"current": "DELETE"}), 422)
    problem(client_for("viewer").get(path, sides | {"page_token": "forged"}), 422)


def test_out_of_order_versions_name_the_condition_that_was_passed_over(client_for, history):
    [row] = client_for("viewer").get(f"{history}reordered/").json()["items"]
    assert (row["version"], row["appends"], row["predicate"]) == (2, [1], "part = 'a'")
    assert (row["is_known"], row["rows_at_most"]) == (True, None)


def test_the_forecast_stands_beside_the_impact(client_for, history):
    body = client_for("viewer").get(f"{history}isolation/", {"level": "Serializable"}).json()
    assert body["forecast"]["more"] == {"DELETE": 1}
    [cell] = [c for c in body["cells"] if (c["current"], c["winner"]) == ("DELETE", "INSERT")]
    assert (cell["verdict"], cell["preview"], cell["overlap_count"]) == (
        "never",
        "same file set",
        1,
    )
    assert body["impact"]["committed"] == [
        {
            "name": "metaData.configuration",
            "lines": [{"sign": "+", "text": "delta.isolationLevel = Serializable"}],
        }
    ]


def test_clustering_can_be_changed_over_rest(client_for, history, table):
    path = f"{history}isolation/"
    body = {"clustering_columns": "id"}
    type(table).objects.update(partition_columns=[])
    preview = client_for("viewer").get(path, body).json()
    assert preview["impact"]["clustering"] == ["id"]
    answer = client_for("maintainer").patch(path, body, format="json", headers={"If-Match": "*"})
    assert answer.status_code == 202
    assert Job.objects.get().parameters["columns"] == ["id"]


def test_a_change_sent_again_gets_its_first_answer_though_the_table_moved_on(
    client_for, history, table
):
    caller, path = client_for("maintainer"), f"{history}isolation/"
    headers = {"If-Match": caller.get(path).headers["ETag"], "Idempotency-Key": "level-1"}
    body = {"level": "Serializable"}
    first = caller.patch(path, body, format="json", headers=headers)
    Table.objects.filter(pk=table.pk).update(version=99)  # its job committed
    again = caller.patch(path, body, format="json", headers=headers)
    assert (again.status_code, again.json()) == (202, first.json())
    assert Job.objects.count() == 1
    problem(
        caller.patch(path, body, format="json", headers={**headers, "Idempotency-Key": "2"}), 412
    )


def test_an_unknown_level_is_refused_at_the_request(client_for, table):
    path = f"/api/v1/tables/{table.pk}/jobs/"
    level = {"delta.isolationLevel": "Strict"}
    for body in (
        {"kind": "set_properties", "parameters": {"properties": level}},
        {"sql": "ALTER TABLE t SET TBLPROPERTIES ('delta.isolationLevel' = 'Strict')"},
    ):
        answer = client_for("maintainer").post(path, body, format="json")
        told = problem(answer, 422, "DELTA_INVALID_ISOLATION_LEVEL")
        assert "delta.isolationLevel" in str(told)
        assert "Use WriteSerializable or Serializable" in str(told)
    assert not Job.objects.exists()
