"""The way from an empty installation to the first table, and from an uploaded file to a job."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from lakeui.jobs.models import Job
from tests.e2e.conftest import PASSWORD
from tests.e2e.lake import empty_installation
from tests.e2e.test_every_page import RULES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def violations(page):
    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"][:3]]


def test_a_file_is_sent_looked_at_and_loaded_under_other_types(overview_page, tmp_path):
    page = overview_page
    file = tmp_path / "clicks of may.csv"
    lines = [f"{n};{n:05d};2026-05-{n % 28 + 1:02d};/page/{n}" for n in range(1, 20_000)]
    file.write_text("\n".join(["id;code;day;page", *lines]) + "\n")
    page.goto("/tables/upload/")
    page.set_input_files("#id_file", str(file))
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_role("heading", name="Load clicks_of_may.csv")).to_be_visible()
    expect(page.get_by_label("Delimiter")).to_have_value(";")
    expect(page.get_by_label("Type of code")).to_have_value("STRING")
    rows = page.locator("#rows tbody tr")
    expect(rows.first).to_contain_text("00001")
    page.goto(page.url)
    assert violations(page) == []

    page.get_by_label("Type of code").fill("INT")
    page.get_by_label("Type of page").fill("nonsense")
    page.keyboard.press("Tab")
    expect(page.get_by_text("nonsense is not a type.")).to_be_visible()
    expect(rows.first).not_to_contain_text("00001")
    page.get_by_role("button", name="Load it with a job").click()
    expect(page.get_by_text("A type cannot be used.")).to_be_visible()
    page.get_by_label("Type of page").fill("DATE")
    page.keyboard.press("Tab")
    expect(rows.first).to_contain_text("fails the job")
    page.get_by_label("Type of page").fill("STRING")
    page.keyboard.press("Tab")
    expect(rows.first).not_to_contain_text("fails the job")

    _load_and_land(page)


def _load_and_land(page):
    page.get_by_label("Name of the new table").fill("web.clicks_of_may")
    page.get_by_role("button", name="Load it with a job").click()
    expect(page.get_by_text("web.clicks_of_may is not there yet.")).to_be_visible()
    job = Job.objects.get(table__name="web.clicks_of_may")
    types = {field["name"]: field["type"] for field in job.parameters["schema"]["fields"]}
    assert types == {"id": "long", "code": "integer", "day": "date", "page": "string"}

    job.table.version = 0
    job.table.save(update_fields=["version"])
    Job.objects.filter(pk=job.pk).update(state=Job.State.SUCCEEDED, committed_version=0)
    expect(page.get_by_text("Committed as v0")).to_be_visible()
    expect(page.get_by_text("is not there yet")).to_have_count(0)
    job.table.delete()


def test_a_file_that_cannot_be_loaded_is_refused_on_the_page(overview_page, tmp_path):
    page = overview_page
    file = tmp_path / "photo.exe"
    file.write_bytes(b"x")
    page.goto("/tables/upload/")
    page.set_input_files("#id_file", str(file))
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("cannot be loaded")).to_be_visible()
    latin = tmp_path / "latin.csv"
    latin.write_bytes("name\nMüller\n".encode("latin-1"))
    page.set_input_files("#id_file", str(latin))
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("is not UTF-8 text")).to_be_visible()
    expect(page.get_by_role("button", name="Load it with a job")).to_be_disabled()


def test_an_empty_installation_leads_through_three_steps_and_one_click_removes_its_demo(
    browser, tmp_path
):
    with empty_installation(tmp_path, PASSWORD) as address:
        context = browser.new_context(base_url=address)
        page = context.new_page()
        page.goto("/login/")
        page.fill("#id_username", "first")
        page.fill("#id_password", PASSWORD)
        page.press("#id_password", "Enter")
        page.get_by_role("link", name="Remove the demo").click()
        expect(page.get_by_text("price-fixer")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="Remove the demo").click()
        expect(page.get_by_text("The demo was removed")).to_be_visible()
        expect(page.get_by_role("heading", name="First steps")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("link", name="Load a file").click()
        expect(page.get_by_role("heading", name="Load a file into a new table")).to_be_visible()
        page.goto("/")
        page.get_by_role("link", name="Add an account").click()
        page.fill("#id_username", "second")
        page.get_by_label("Password:", exact=True).fill(PASSWORD)
        page.get_by_label("Password confirmation:").fill(PASSWORD)
        page.get_by_role("button", name="Save", exact=True).click()
        page.goto("/")
        expect(page.locator("#first-steps .done")).to_contain_text("Invite a colleague")
        page.get_by_role("button", name="Hide").click()
        expect(page.get_by_role("heading", name="No tables yet")).to_be_visible()
        expect(page.get_by_role("heading", name="First steps")).to_have_count(0)
        context.close()
