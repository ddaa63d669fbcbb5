"""Who sees which page: one who owns, one who may look, one who must see nothing."""

import pytest
from django.test import Client

from lakeui.catalog.roles import Role
from tests.lakeui.factories import grant
from tests.lakeui.pages.conftest import SmallLake

ABOUT_ONE = (
    "table", "history", "version", "diff", "concurrency", "isolation", "eligibility", "what-if",
    "files", "preview", "job", "job log", "conflict",
)  # fmt: skip
LISTS = (
    "overview",
    "tables",
    "jobs",
    "conflicts",
    "schedules",
    "search",
    "monitoring",
    "explain",
    "tokens",
)


@pytest.mark.parametrize("who", ["owner", "viewer"])
def test_whoever_may_look_sees_every_page(as_, lake, who):
    assert _statuses(as_(who), lake, [*ABOUT_ONE, *LISTS]) == {200: [*ABOUT_ONE, *LISTS]}


def test_a_stranger_does_not_learn_that_a_page_exists(as_, lake):
    assert _statuses(as_("stranger"), lake, ABOUT_ONE) == {404: [*ABOUT_ONE]}


def test_a_strangers_lists_are_empty(as_, lake):
    client = as_("stranger")
    for name in LISTS:
        body = client.get(lake.paths()[name]).content.decode()
        assert f"/tables/{lake.table.pk}/" not in body, name
        assert f"/jobs/{lake.job.pk}/" not in body, name


def test_whoever_is_not_signed_in_is_sent_to_sign_in(lake):
    for name in [*ABOUT_ONE, *LISTS]:
        response = Client().get(lake.paths()[name])
        assert response.status_code == 302, name
        assert response["Location"].startswith("/login/?next="), name


def _statuses(client, lake, names):
    """The pages by what they answer."""
    found = {}
    for name in names:
        found.setdefault(client.get(lake.paths()[name]).status_code, []).append(name)
    return found


def test_a_grant_on_one_table_shows_that_table_alone(as_, lake, people):
    other = SmallLake("crm.customers")
    grant(people["stranger"], lake.table, Role.VIEWER)
    client = as_("stranger")
    assert client.get(lake.paths()["history"]).status_code == 200
    assert client.get(other.paths()["history"]).status_code == 404
    assert "crm.customers" not in client.get("/tables/").content.decode()


def test_what_a_viewer_may_not_do_is_not_offered(as_, lake):
    table = as_("viewer").get(lake.paths()["table"]).content.decode()
    job = as_("viewer").get(lake.paths()["job"]).content.decode()
    assert "New job" not in table
    assert "Cancel this job" not in job


def test_what_an_owner_may_do_is_offered(as_, lake):
    table = as_("owner").get(lake.paths()["table"]).content.decode()
    job = as_("owner").get(lake.paths()["job"]).content.decode()
    assert "New job" in table
    assert "Cancel this job" in job


@pytest.mark.parametrize("path", ["/tables/register/", "/tables/upload/", "/tables/clone/"])
def test_new_tables_need_a_maintainer_and_the_page_says_so(as_, path):
    response = as_("operator").get(path)
    assert response.status_code == 403
    assert "role maintainer" in response.content.decode()


def test_a_viewer_cannot_open_the_form_of_a_job(as_, lake):
    response = as_("viewer").get(f"/jobs/new/?table={lake.table.pk}")
    assert response.status_code == 403
    assert "role operator" in response.content.decode()


def test_a_viewer_who_posts_anyway_changes_nothing(as_, lake):
    client = as_("viewer")
    client.post(f"/jobs/{lake.job.pk}/cancel/")
    lake.job.refresh_from_db()
    assert lake.job.cancel_requested_at is None
    assert client.post(f"/tables/{lake.table.pk}/refresh/").status_code == 403


@pytest.mark.parametrize("name", ["cancel", "retry"])
def test_acts_on_a_job_are_not_done_by_a_link(as_, lake, name):
    assert as_("owner").get(f"/jobs/{lake.job.pk}/{name}/").status_code == 405
