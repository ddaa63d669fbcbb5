"""Eligibility, isolation, matrix and swim-lane over REST."""

import pytest

from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem
from tests.lakeui.conflicts.histories import replayable


def test_the_level_can_be_weighed_before_it_is_changed(client_for, table):
    path = f"/api/v1/tables/{table.pk}/isolation/"
    body = client_for("viewer").get(path, {"level": "Serializable"}).json()
    assert body["impact"]["changes"] == {"delta.isolationLevel": "Serializable"}
    assert client_for("viewer").get(path).json()["impact"] is None
    assert not Job.objects.exists()


def test_the_level_is_changed_by_a_job_on_the_state_that_was_seen(client_for, table):
    caller, path = client_for("maintainer"), f"/api/v1/tables/{table.pk}/isolation/"
    seen = {"If-Match": caller.get(path).headers["ETag"]}
    body = {"level": "Serializable", "deletion_vectors": True, "reason": "audit"}
    response = caller.patch(path, body, format="json", headers=seen)
    assert response.status_code == 202
    job = Job.objects.get()
    assert (job.kind, job.reason) == ("set_properties", "audit")
    assert job.parameters["properties"] == {
        "delta.isolationLevel": "Serializable",
        "delta.enableDeletionVectors": "true",
    }
    type(table).objects.update(version=3)
    problem(caller.patch(path, body, format="json", headers=seen), 412, "PRECONDITION_FAILED")


@pytest.mark.parametrize("body", [{}, {"level": "SnapshotIsolation"}, {"level": None}])
def test_an_empty_change_is_refused(client_for, table, body):
    path = f"/api/v1/tables/{table.pk}/isolation/"
    problem(client_for("admin").patch(path, body, format="json", headers={"If-Match": "*"}), 422)


def test_eligibility_names_the_jobs_to_post(client_for, table):
    path = f"/api/v1/tables/{table.pk}/"
    body = client_for("maintainer").get(f"{path}eligibility/").json()
    jobs = [step["job"] for step in body["conditions"] if step["job"]]
    response = client_for("maintainer").post(f"{path}jobs/", jobs[0], format="json")
    assert response.status_code == 202


def test_the_matrix_counts_overlaps(client_for, table, conflict):
    path = f"/api/v1/tables/{table.pk}/matrix/"
    [pair] = client_for("viewer").get(path, {"days": 3650}).json()["observed"]
    assert (pair["current_operation"], pair["aborted"]) == ("UPDATE", 1)
    problem(client_for("viewer").get(path, {"days": 0}), 422)


def test_the_swim_lane_is_served_by_range(client_for, table, conflict):
    path = f"/api/v1/tables/{table.pk}/concurrency/"
    body = client_for("viewer").get(path, {"first": 1}).json()
    assert [bar["version"] for bar in body["bars"] if bar["version"] is not None] == [1, 2]
    assert [bar["conflict_id"] for bar in body["bars"] if bar["outcome"] == "aborted"] == [
        conflict.pk
    ]
    problem(client_for("viewer").get(path, {"first": -1}), 422)
    problem(client_for("viewer").get(path, {"frist": 1}), 422)


def test_the_matrix_is_computed_for_any_level(client_for, table):
    path = f"/api/v1/tables/{table.pk}/matrix/"
    body = client_for("viewer").get(path, {"level": "Serializable"}).json()
    assert body["level"] == "Serializable"
    assert len(body["computed"]) == 16
    assert client_for("viewer").get(path).json()["level"] == "WriteSerializable"


def test_what_if_judges_commits_and_conflicts(client_for, table, conflict):
    replayable(table)
    path = f"/api/v1/tables/{table.pk}/what-if/"
    body = client_for("viewer").get(path, {"level": "Serializable", "row_level": "false"}).json()
    assert [(row["version"], row["verdict"]) for row in body["commits"]] == [(2, "conflict")]
    assert [row["conflict_id"] for row in body["conflicts"]] == [conflict.pk]
    own = client_for("viewer").get(path).json()
    assert (own["level"], own["row_level"]) == ("WriteSerializable", False)
    assert own["commits"][0]["verdict"] == "passes"
