"""Access to pages for an owner, a viewer, and a user without access."""

import html
import re

import pytest

from lakeui.catalog.roles import Role
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job
from lakeui.jobs.schedules import create_schedule
from tests.lakeui.factories import grant, make_table
from tests.lakeui.page_client import PageClient as Client
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
    "sessions",
)


@pytest.mark.parametrize("who", ["owner", "viewer"])
def test_a_person_with_any_role_sees_every_page(client_for, lake, who):
    assert _statuses(client_for(who), lake, [*ABOUT_ONE, *LISTS]) == {200: [*ABOUT_ONE, *LISTS]}


def test_a_stranger_does_not_learn_that_a_page_exists(client_for, lake):
    assert _statuses(client_for("stranger"), lake, ABOUT_ONE) == {404: [*ABOUT_ONE]}


def test_a_strangers_lists_are_empty(client_for, lake):
    client = client_for("stranger")
    for name in LISTS:
        body = client.get(lake.paths()[name]).content.decode()
        assert f"/tables/{lake.table.pk}/" not in body, name
        assert f"/jobs/{lake.job.pk}/" not in body, name


def test_a_person_who_is_not_signed_in_is_sent_to_sign_in(lake):
    for name in [*ABOUT_ONE, *LISTS]:
        response = Client().get(lake.paths()[name])
        assert response.status_code == 302, name
        assert response["Location"].startswith("/login/?next="), name


def _statuses(client, lake, names):
    """Return the pages by the status of their answer."""
    answers = {}
    for name in names:
        answers.setdefault(client.get(lake.paths()[name]).status_code, []).append(name)
    return answers


def test_a_grant_on_one_table_shows_that_table_alone(client_for, lake, people):
    other = SmallLake("crm.customers")
    grant(people["stranger"], lake.table, Role.VIEWER)
    client = client_for("stranger")
    assert client.get(lake.paths()["history"]).status_code == 200
    assert client.get(other.paths()["history"]).status_code == 404
    assert "crm.customers" not in client.get("/tables/").content.decode()


def test_actions_that_a_viewer_may_not_do_are_not_offered(client_for, lake):
    table = client_for("viewer").get(lake.paths()["table"]).content.decode()
    job = client_for("viewer").get(lake.paths()["job"]).content.decode()
    assert "New job" not in table
    assert "Cancel this job" not in job


def test_actions_that_an_owner_may_do_are_offered(client_for, lake):
    table = client_for("owner").get(lake.paths()["table"]).content.decode()
    job = client_for("owner").get(lake.paths()["job"]).content.decode()
    assert "New job" in table
    assert "Cancel this job" in job


@pytest.mark.parametrize("path", ["/tables/register/", "/tables/upload/", "/tables/clone/"])
def test_new_tables_need_a_maintainer_and_the_page_says_so(client_for, path):
    response = client_for("operator").get(path)
    assert response.status_code == 403
    assert "role maintainer" in response.content.decode()


def test_a_viewer_cannot_open_the_form_of_a_job(client_for, lake):
    response = client_for("viewer").get(f"/jobs/new/?table={lake.table.pk}")
    assert response.status_code == 403
    assert "role operator" in response.content.decode()


def test_a_viewer_who_posts_anyway_changes_nothing(client_for, lake):
    client = client_for("viewer")
    client.post(f"/jobs/{lake.job.pk}/cancel/")
    lake.job.refresh_from_db()
    assert lake.job.cancel_requested_at is None
    assert client.post(f"/tables/{lake.table.pk}/refresh/").status_code == 403


def test_acts_on_a_job_are_not_done_by_a_link(client_for, lake):
    assert client_for("owner").get(f"/jobs/{lake.job.pk}/cancel/").status_code == 405
    count = Job.objects.count()
    assert (
        client_for("owner").get(f"/jobs/{lake.job.pk}/rerun/").status_code == 302
    )  # to the job's page
    assert Job.objects.count() == count


@pytest.fixture
def busy_lake(lake, people):
    """Add records with links: attention items with a next step, a plan, and a scheduled job's loss."""
    make_table("web.events", file_count=100, small_file_count=80)
    schedule = create_schedule(
        table=lake.table, name="nightly", cron="0 3 * * *", owner=people["owner"], sql="OPTIMIZE t"
    )
    Job.objects.filter(pk=lake.job.pk).update(
        state=Job.State.SUCCEEDED, dry_run=True, plan={"summary": "9 files."}, schedule=schedule
    )
    remedies = [{"kind": "quiet_window", "action": "Run it at 3", "reason": "Nobody writes then."}]
    Conflict.objects.update(job=lake.job, facts={"remedies": remedies}, rule="added_files")
    return lake


@pytest.mark.parametrize("who", ["viewer", "operator"])
def test_no_link_leads_where_a_person_may_not_go(client_for, busy_lake, who):
    client, seen = client_for(who), {}
    for name in [*ABOUT_ONE, *LISTS, "attention"]:
        response = client.get(busy_lake.paths()[name])
        for link in re.findall(r'<a [^>]*?href="(/[^"#]+)', response.content.decode()):
            seen.setdefault(html.unescape(link), name)
    refused = {
        (link, page, status)
        for link, page in seen.items()
        if (status := client.get(link).status_code) in (403, 405)
    }
    assert refused == set()


def test_a_dry_run_is_offered_to_people_who_may_request_it(client_for, busy_lake, settings):
    def offers(who):
        return "Dry run" in client_for(who).get("/attention/").content.decode()

    assert [offers("viewer"), offers("operator"), offers("owner")] == [False, False, True]
    settings.READ_ONLY = True
    assert not offers("owner")


def test_a_plan_is_run_by_people_who_may_run_it(client_for, busy_lake):
    page = f"/jobs/{busy_lake.job.pk}/"
    assert "Run it" not in client_for("viewer").get(page).content.decode()
    assert "Run it" in client_for("owner").get(page).content.decode()
