"""Schedules over REST."""

import pytest

from lakeui.jobs.models import Schedule
from tests.lakeui.api.problem import problem

NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "kind": "optimize", "parameters": {}}


def test_a_schedule_is_made_as_its_owner(as_, table):
    response = as_("maintainer").post(
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
def test_a_schedule_at_fault_names_the_field(as_, table, changed, field):
    path = f"/api/v1/tables/{table.pk}/schedules/"
    faults = problem(as_("admin").post(path, NIGHTLY | changed, format="json"), 422)["errors"]
    assert field in {fault["field"] for fault in faults}


def test_a_name_is_taken_once_a_table(as_, table):
    path = f"/api/v1/tables/{table.pk}/schedules/"
    as_("admin").post(path, NIGHTLY, format="json")
    [fault] = problem(as_("admin").post(path, NIGHTLY, format="json"), 422)["errors"]
    assert fault["field"] == "name"


def test_the_same_request_twice_makes_one_schedule(as_, table):
    path, key = f"/api/v1/tables/{table.pk}/schedules/", {"Idempotency-Key": "k"}
    for _ in range(2):
        answer = as_("admin").post(path, NIGHTLY, format="json", headers=key)
        assert answer.status_code == 201
    assert Schedule.objects.count() == 1


def test_a_schedule_rests_and_fires_again(as_, schedule):
    path = f"/api/v1/schedules/{schedule.pk}/"
    resting = as_("maintainer").patch(path, {"enabled": False}, format="json").json()
    assert (resting["enabled"], resting["next_due_at"]) == (False, None)
    again = as_("maintainer").patch(path, {"enabled": True}, format="json").json()
    assert again["next_due_at"] is not None
    problem(as_("maintainer").patch(path, {}, format="json"), 422)


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
def test_schedules_are_narrowed(as_, schedule, query, count):
    assert len(as_("viewer").get("/api/v1/schedules/", query).json()["items"]) == count


def test_a_schedule_changes_its_words(as_, schedule):
    path = f"/api/v1/schedules/{schedule.pk}/"
    changed = as_("maintainer").patch(
        path, {"cron": "0 4 * * *", "retries": 3, "time_limit_s": 60}, format="json"
    )
    assert changed.json()["cron_words"] == "every day at 04:00 UTC"
    assert (changed.json()["max_retries"], changed.json()["time_limit_s"]) == (3, 60)
    [fault] = problem(as_("maintainer").patch(path, {"cron": "?"}, format="json"), 422)["errors"]
    assert fault["field"] == "cron"


def test_a_schedule_runs_once_now(as_, schedule):
    path = f"/api/v1/schedules/{schedule.pk}:run"
    answer = as_("maintainer").post(path)
    assert answer.status_code == 202
    assert answer.json()["schedule_id"] == schedule.pk
    problem(as_("viewer").post(path), 403)
