"""What people come to do, in a browser, from the first click to the last."""

import csv
import re

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from lakeui.jobs.models import Job, JobEvent
from lakeui.local_stack.login_links import make_link_token
from tests.e2e.keyboard import Keyboard
from tests.lakeui.factories import make_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_a_link_signs_in_once_and_a_password_after_it(page, story):
    token = make_link_token(story.owner)
    page.goto(f"/login/{token}/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.locator(".user summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"/login/{token}/")
    expect(page.get_by_text("used or is too old")).to_be_visible()
    page.fill("#id_username", "auditor")
    page.fill("#id_password", "wrong")
    page.press("#id_password", "Enter")
    expect(page.get_by_text("That did not match.")).to_be_visible()
    page.fill("#id_password", "correct horse battery")
    page.press("#id_password", "Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_from_a_search_to_a_version_and_its_neighbours_by_keys_alone(signed_in):
    page, keyboard = signed_in, Keyboard(signed_in)
    keyboard.keys("/")
    page.keyboard.type("sales.orders v4797")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="version 4797")).to_be_visible()
    keyboard.keys("]")
    expect(page.get_by_role("heading", name="version 4798")).to_be_visible()
    keyboard.keys("[")
    expect(page.get_by_role("heading", name="version 4797")).to_be_visible()
    keyboard.keys("gt")
    expect(page.get_by_role("heading", name="Tables", exact=True)).to_be_visible()
    keyboard.keys("jjk")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="crm.consents", exact=True)).to_be_visible()
    keyboard.keys("?")
    expect(page.get_by_text("Off while you type.")).to_be_visible()


def test_a_statement_is_understood_while_it_is_written_and_runs_when_confirmed(signed_in, story):
    page = signed_in
    page.goto(f"/jobs/new/?table={story.orders.pk}")
    page.fill("#id_sql", "DELETE FORM sales.orders")
    expect(page.get_by_role("heading", name="Not understood")).to_be_visible()
    page.fill("#id_sql", "DELETE FROM sales.orders WHERE order_id = 7")
    expect(page.get_by_role("heading", name="is what was understood")).to_be_visible()
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("Type sales.orders to confirm; nothing was queued.")).to_be_visible()
    page.get_by_label("Type sales.orders to run it").fill("sales.orders")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("heading", name="DELETE on sales.orders")).to_be_visible()
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.get_by_text("Nothing of it is in the table.")).to_be_visible()


def test_a_running_job_moves_by_itself_until_it_has_committed(signed_in, story):
    page = signed_in
    job = make_job(
        story.orders, "update", state=Job.State.RUNNING, requested_by=story.owner, attempts=1,
        started_at=timezone.now(), progress_stage="write", progress_done=1, progress_total=4,
        progress_unit="tasks",
    )  # fmt: skip
    page.goto(f"/jobs/{job.pk}/")
    expect(page.get_by_text("1 of 4 tasks")).to_be_visible()
    Job.objects.filter(pk=job.pk).update(progress_done=3)
    JobEvent.objects.create(job=job, at=timezone.now(), message="three quarters are written")
    expect(page.get_by_text("3 of 4 tasks")).to_be_visible()
    expect(page.get_by_text("three quarters are written")).to_be_visible()
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(
        state=Job.State.SUCCEEDED, committed_version=4814, finished_at=now, progress_done=4
    )
    expect(page.get_by_text("Committed as v4814")).to_be_visible()
    expect(page.get_by_text("Cancel…")).to_have_count(0)


def test_a_lost_write_leads_to_both_sides_and_what_would_have_helped(signed_in, story):
    page = signed_in
    page.goto("/")
    page.get_by_role("link", name="Conflicts", exact=False).first.click()
    page.locator("a.filter", has_text="Aborted").click()
    page.get_by_role("link", name=f"c-{story.conflict.pk}", exact=True).click()
    for said in ("price-fixer was aborted", "gdpr-eraser won", "Check 6 of 7", "How to avoid it"):
        expect(page.get_by_role("heading", name=said)).to_be_visible()
    page.get_by_role("button", name="Copy message").click()
    expect(page.locator("#toast")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("Version 4797 (DELETE) deleted 3 rows")
    page.get_by_role("link", name="v4797").first.click()
    expect(page.get_by_role("heading", name="version 4797")).to_be_visible()


def test_a_narrowed_list_is_a_link_a_file_and_a_zone(signed_in, story):
    page = signed_in
    page.goto(f"/tables/{story.orders.pk}/history/")
    page.get_by_role("link", name="DELETE", exact=False).first.click()
    page.wait_for_url("**operation=DELETE**")
    expect(page.get_by_text("1 to 1 of 1 that match")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    with open(download.value.path(), encoding="utf-8") as file:  # noqa: PTH123 - a temporary file
        assert [row["version"] for row in csv.DictReader(file)] == ["4797"]
    page.get_by_role("button", name="Dark", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(re.compile("operation=DELETE"))
    page.get_by_role("button", name="Local").click()
    expect(page.get_by_role("button", name="UTC")).to_be_visible()


def test_what_a_reader_opened_stays_open_while_the_page_renews_itself(signed_in, story):
    page = signed_in
    page.goto(f"/jobs/{story.running.pk}/")
    page.get_by_text("Steps as a table").click()
    expect(page.get_by_role("rowheader", name="Find matches")).to_be_visible()
    JobEvent.objects.create(job=story.running, at=timezone.now(), message="a line that is new")
    expect(page.get_by_text("a line that is new")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("rowheader", name="Find matches")).to_be_visible()
