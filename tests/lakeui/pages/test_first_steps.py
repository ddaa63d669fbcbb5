"""An empty installation begins with three steps, each ticked once there is what it makes."""

import pytest

from lakeui.catalog.roles import Role
from lakeui.jobs.models import Schedule
from lakeui.monitoring.overview import first_steps
from tests.lakeui.factories import make_table, make_user
from tests.lakeui.page_client import PageClient

pytestmark = pytest.mark.django_db


@pytest.fixture
def first():
    """The only person of an empty installation."""
    return make_user("first", Role.ADMIN, is_staff=True)


def page(person):
    client = PageClient()
    client.force_login(person)
    return client


def list_done(person):
    return [step.done for step in first_steps(person)]


def test_each_step_is_ticked_once_it_is_done_and_all_are_gone_then(first):
    assert list_done(first) == [False, False, False]
    table = make_table("a.b", version=None)
    assert list_done(first) == [False, False, False]  # a job is still to create it
    table.version = 0
    table.save()
    assert list_done(first) == [True, False, False]
    Schedule.objects.create(table=table, name="n", kind="optimize", cron="0 2 * * *", owner=first)
    assert list_done(first) == [True, True, False]
    make_user("second", Role.VIEWER)
    assert list_done(first) == []


def test_the_overview_leads_to_each_step(first):
    body = page(first).get("/").content.decode()
    for address in (
        "/tables/register/",
        "/tables/upload/",
        "/schedules/new/",
        "/admin/auth/user/add/",
    ):
        assert f'href="{address}"' in body


def test_the_steps_can_be_hidden(first):
    client = page(first)
    client.post("/preferences/", {"first_steps": "hidden", "next": "/"})
    body = client.get("/").content.decode()
    assert "First steps" not in body
    assert "No tables yet" in body


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_who_cannot_take_them_is_not_led(role):
    assert "First steps" not in page(make_user("other", role)).get("/").content.decode()


def test_rest_says_the_steps(first):
    said = page(first).get("/api/v1/overview/").json()["first_steps"]
    assert said == [{"step": step, "done": False} for step in ("table", "schedule", "invite")]
