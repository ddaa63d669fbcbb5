"""First steps of an empty installation: four steps, each ticked when its object exists."""

import html
import re

import pytest
from django.utils import timezone
from knox.models import get_token_model

from lakeui.catalog.roles import Role
from lakeui.conflicts.models import Pipeline
from lakeui.jobs.models import Schedule
from lakeui.monitoring.overview import first_steps
from tests.lakeui.factories import make_table, make_user
from tests.lakeui.page_client import PageClient

pytestmark = pytest.mark.django_db


@pytest.fixture
def first():
    """Return the only person of an empty installation."""
    return make_user("first", Role.ADMIN, is_staff=True)


def page(person):
    client = PageClient()
    client.force_login(person)
    return client


def list_done(person):
    return [step.done for step in first_steps(person)]


def test_each_step_is_ticked_once_it_is_done_and_all_disappear_then(first):
    assert list_done(first) == [False] * 4
    table = make_table("a.b", version=None)
    assert list_done(first) == [False] * 4  # a job is still to create it
    table.version = 0
    table.save()
    assert list_done(first) == [True, False, False, False]
    Schedule.objects.create(table=table, name="n", kind="optimize", cron="0 2 * * *", owner=first)
    assert list_done(first) == [True, True, False, False]
    now = timezone.now()
    Pipeline.objects.create(name="nightly", first_seen_at=now, last_seen_at=now)
    assert list_done(first) == [True, True, True, False]
    make_user("second", Role.VIEWER)
    assert list_done(first) == []


def test_the_overview_leads_to_each_step(first):
    body = page(first).get("/").content.decode()
    for address in (
        "/tables/register/",
        "/tables/upload/",
        "/tables/discover/",
        "/schedules/new/",
        "/admin/auth/user/add/",
    ):
        assert f'href="{address}"' in body


def test_a_program_is_shown_how_to_report_with_a_token_made_on_the_spot(first):
    body = page(first).get("/").text.partition("See the conflicts of an existing program")[2]
    form = body.partition("</form>")[0]
    fields = dict(re.findall(r'name="(\w+)"\s+value="([^"]+)"', form))
    made = page(first).post("/tokens/", fields)
    (token,) = get_token_model().objects.all()
    assert token.role == Role.REPORTER
    lines = made.text.partition('id="report-lines">')[2].partition("</pre>")[0]
    assert re.match(r"export LAKEUI_URL=http://testserver export LAKEUI_TOKEN=lake_\S{20,} ", lines)
    assert "from lakeui.delta import reporting" in lines


def test_a_new_job_without_any_table_leads_to_the_first(first):
    body = page(first).get("/jobs/new/").text
    assert 'href="/tables/register/"' in body
    assert "An administrator can grant it" not in body
    viewer = page(make_user("other", Role.VIEWER)).get("/jobs/new/").text
    assert "You need the role maintainer" in viewer


@pytest.mark.parametrize("address", ["/tables/register/", "/tables/discover/"])
def test_the_roots_and_how_to_add_one_are_named(first, settings, address):
    settings.TABLE_ROOTS, settings.LAKE_HOME = ["/data/my lake", "/home/lake"], "/home/lake"
    settings.EMBEDDED = True
    body = html.unescape(page(first).get(address).text)
    assert "/data/my lake" in body
    assert "TABLE_ROOTS='/data/my lake,/path/to/tables' make run" in body
    settings.EMBEDDED = False
    body = " ".join(html.unescape(page(first).get(address).text).split())
    assert "make run" not in body
    assert "for the web server and the workers, and restart them" in body


def test_the_steps_can_be_hidden(first):
    client = page(first)
    client.post("/preferences/", {"first_steps": "hidden", "next": "/"})
    body = client.get("/").content.decode()
    assert "First steps" not in body
    assert "No tables yet" in body


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_a_person_without_the_rights_is_shown_no_steps(role):
    assert "First steps" not in page(make_user("other", role)).get("/").content.decode()


def test_rest_says_the_steps(first):
    said = page(first).get("/api/v1/overview/").json()["first_steps"]
    assert said == [
        {"step": step, "done": False} for step in ("table", "schedule", "program", "invite")
    ]
