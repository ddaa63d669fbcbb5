"""Schedules over REST."""

import pytest

from lakeui.jobs.models import Schedule
from tests.lakeui.api.problem import problem

NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "kind": "optimize", "parameters": {}}


def test_a_schedule_is_made_as_its_owner(client_for, table):
    response = client_for("maintainer").post(
        f"/api/v1/tables/{table.pk}/schedules/", NIGHTLY, format="json"
    )
    made = Schedule.objects.get()
    assert response.status_code == 201
    assert response.headers["Location"].endswith(f"/schedules/{made.pk}/")
    assert (made.owner.username, made.statement) == ("maintainer", response.json()["statement"])
    assert response.json()["next_due_at"].endswith("T03:00:00Z")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"cron": "now and then"}, "cron"),
        ({"cron": "99 * * * *"}, "cron"),
        ({"name": " "}, "name"),
        ({"kind": "conquer"}, "kind"),
        ({"sql": "OPTIMIZE t"}, "kind"),
        ({"retries": 101}, "retries"),
    ],
)
def test_a_schedule_at_fault_names_the_field(client_for, table, changed, field):
    path = f"/api/v1/tables/{table.pk}/schedules/"
    faults = problem(client_for("admin").post(path, NIGHTLY | changed, format="json"), 422)[
        "errors"
    ]
    assert field in {fault["field"] for fault in faults}


def test_a_name_belongs_to_one_table(client_for, table):
    path = f"/api/v1/tables/{table.pk}/schedules/"
    client_for("admin").post(path, NIGHTLY, format="json")
    [fault] = problem(client_for("admin").post(path, NIGHTLY, format="json"), 422)["errors"]
    assert fault["field"] == "name"


def test_the_same_request_twice_makes_one_schedule(client_for, table):
    path, key = f"/api/v1/tables/{table.pk}/schedules/", {"Idempotency-Key": "k"}
    for _ in range(2):
        answer = client_for("admin").post(path, NIGHTLY, format="json", headers=key)
        assert answer.status_code == 201
    assert Schedule.objects.count() == 1


def test_a_schedule_rests_and_fires_again(client_for, schedule):
    path = f"/api/v1/schedules/{schedule.pk}/"
    resting = client_for("maintainer").patch(path, {"enabled": False}, format="json").json()
    assert (resting["enabled"], resting["next_due_at"]) == (False, None)
    again = client_for("maintainer").patch(path, {"enabled": True}, format="json").json()
    assert again["next_due_at"] is not None
    problem(client_for("maintainer").patch(path, {}, format="json"), 422)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({}, 1),
        ({"kind": "optimize"}, 1),
        ({"enabled": "false"}, 0),
        ({"owner": "admin"}, 1),
        ({"table": "x"}, 0),
    ],
)
def test_schedules_are_narrowed(client_for, schedule, query, count):
    assert len(client_for("viewer").get("/api/v1/schedules/", query).json()["items"]) == count


def test_a_schedule_changes_its_words(client_for, schedule):
    path = f"/api/v1/schedules/{schedule.pk}/"
    changed = client_for("maintainer").patch(
        path, {"cron": "0 4 * * *", "retries": 3, "time_limit_s": 60}, format="json"
    )
    assert changed.json()["cron_words"] == "every day at 04:00 UTC"
    assert (changed.json()["max_retries"], changed.json()["time_limit_s"]) == (3, 60)
    [fault] = problem(client_for("maintainer").patch(path, {"cron": "?"}, format="json"), 422)[
        "errors"
    ]
    assert fault["field"] == "cron"


def test_a_schedule_runs_once_now(client_for, schedule):
    path = f"/api/v1/schedules/{schedule.pk}:run"
    answer = client_for("maintainer").post(path)
    assert answer.status_code == 202
    assert answer.json()["schedule_id"] == schedule.pk
    problem(client_for("viewer").post(path), 403)
