"""The main tasks of users, in a browser, from the first click to the last."""

import csv
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import expect

from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.models import Preview, Table
from lakeui.conflicts.models import ConflictTrials, StatementPair
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.models import Job, JobAttempt, JobEvent, JobStage, WorkerReport
from lakeui.jobs.spark_stages import SparkStage
from lakeui.local_stack.login_links import make_link_token
from lakeui.monitoring.models import Mute
from tests.e2e.keyboard import Keyboard
from tests.e2e.test_every_page import LEGIBLE, RULES
from tests.engine.made_tables import remove, write_commit, write_first, write_rows
from tests.lakeui.conflicts.aborted_jobs import create_aborted_job
from tests.lakeui.factories import make_commit, make_job, make_table
from workers.conflicts import try_fixes
from workers.preview import preview_table

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_a_link_signs_in_once_and_a_password_after_it(page, story):
    token = make_link_token(story.owner)
    page.goto(f"/login/{token}/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.locator(".user summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"/login/{token}/")
    expect(page.get_by_text("used or has expired")).to_be_visible()
    page.fill("#id_username", "auditor")
    page.fill("#id_password", "wrong")
    page.press("#id_password", "Enter")
    expect(page.get_by_text("That did not match.")).to_be_visible()
    page.fill("#id_password", "correct horse battery")
    page.press("#id_password", "Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_from_a_search_to_a_version_and_its_neighbors_by_keys_alone(overview_page):
    page, keyboard = overview_page, Keyboard(overview_page)
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
    expect(page.get_by_text("Keys are off while you type.")).to_be_visible()


def test_a_statement_is_understood_while_it_is_written_and_runs_when_confirmed(
    overview_page, story
):
    page = overview_page
    page.goto(f"/jobs/new/?table={story.orders.pk}")
    page.fill("#id_sql", "DELETE FORM sales.orders")
    expect(page.get_by_role("heading", name="Not understood")).to_be_visible()
    page.fill("#id_sql", "DELETE FROM sales.orders")
    expect(page.get_by_role("heading", name="statement recognized")).to_be_visible()
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("Type sales.orders to confirm. Nothing was queued.")).to_be_visible()
    page.get_by_label("Type sales.orders to run it").fill("sales.orders")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("heading", name="DELETE on sales.orders")).to_be_visible()
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.get_by_text("It changed nothing in the table.")).to_be_visible()


def test_a_running_job_moves_by_itself_until_it_has_committed(overview_page, story):
    page = overview_page
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


def test_a_slow_run_is_explained_and_run_again_on_its_page(overview_page, story):
    page, table = overview_page, Table.objects.get(name="web.events")
    for hours, took in ((30, 60), (20, 60), (10, 300)):
        began = timezone.now() - timedelta(hours=hours)
        ended, at = began + timedelta(seconds=took), int(began.timestamp() * 1000)
        job = make_job(
            table, "optimize", requested_by=story.owner, attempts=1, created_at=began,
            started_at=began, finished_at=ended, committed_version=table.version,
        )  # fmt: skip
        attempt = JobAttempt.objects.create(
            job=job, number=1, started_at=began, finished_at=ended, outcome="committed",
            spark_application="app-20261120001700-0002",
        )  # fmt: skip
        JobStage.objects.create(
            attempt=attempt, place=0, name="compact files", started_at=began, finished_at=ended,
            took_ms=took * 1000, found="83 files in 9 bins", spark_stage_count=1,
            spark_stages=[SparkStage(12, tasks=9, done=9, started_ms=at, ended_ms=at + took * 1000).to_row()],
        )  # fmt: skip
    JobEvent.objects.create(job=job, at=began, message="83 files are small")
    WorkerReport.objects.update(seen_at=timezone.now())
    page.goto(f"/jobs/{job.pk}/")
    time = page.get_by_role("region", name="Where the time went")
    expect(time.get_by_role("rowheader")).to_have_text(["Queue", "Attempt 1", "Compact"])
    expect(time.get_by_text("83 files in 9 bins")).to_be_visible()
    time.get_by_role("link", name="Compact").click()
    expect(page.locator("li.log-step:target")).to_have_text("Compact")
    stage = page.get_by_role("region", name="Spark stages").first.locator("tbody tr")
    expect(stage).to_contain_text("9 of 9")
    expect(stage.get_by_role("link", name="12")).to_have_attribute(
        "href", "http://lake-2:4040/stages/stage/?id=12&attempt=0"
    )
    expect(page.get_by_text("Compact took 4 min longer: 5 min, usually 1 min.")).to_be_visible()
    page.get_by_text("All compared runs").click()
    expect(page.locator(".beside tbody tr[aria-selected]")).to_contain_text("This run")
    page.get_by_role("link", name="Run again…").click()
    panel = page.locator("#rerun")
    expect(panel.locator("header")).to_contain_text("it would")
    expect(panel.get_by_text("Would overlap with")).to_be_visible()
    panel.get_by_role("button", name="Run again").click()
    expect(panel.get_by_role("link", name="Requested just now")).to_be_visible()
    expect(page).to_have_url(re.compile(f"/jobs/{job.pk}/"))
    again = Job.objects.get(retry_of=job)
    Job.objects.filter(pk=again.pk).update(
        state=Job.State.SUCCEEDED, committed_version=8122, finished_at=timezone.now()
    )
    expect(panel.get_by_role("link", name="v8122")).to_be_visible()


def test_an_aborted_write_leads_to_both_sides_and_to_how_to_avoid_it(overview_page, story):
    page = overview_page
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


def test_a_fix_is_tried_and_the_job_runs_again_on_the_page_of_its_conflict(overview_page, story):
    """The test does the worker's part itself, between two looks at the page."""
    place = Path(settings.LAKE_HOME) / "sales/retried"
    conflict = create_aborted_job(
        str(place), User.objects.get(username="ops-oncall"), name="sales.retried"
    )
    page = overview_page
    page.goto(f"/conflicts/{conflict.pk}/")
    field, button = (page.locator(f".try {part}").bounding_box() for part in (".field", "button"))
    assert (
        button["x"] > field["x"] + field["width"] or button["y"] > field["y"] + field["height"] + 4
    )
    page.get_by_label("Also try this condition").fill("id >= 10")
    page.get_by_role("button", name="Try the fixes").click()
    expect(page.get_by_text("A worker is trying the fixes")).to_be_visible()
    try_fixes(ConflictTrials.objects.get(conflict=conflict).pk)
    expect(page.get_by_text("the write was aborted again, as it had been")).to_be_visible()
    expect(page.get_by_text("Tried: it would have committed").first).to_be_visible()
    page.reload()
    page.get_by_role("link", name="With your condition").click()
    expect(page.locator("#rerun pre")).to_contain_text("(id >= 5) AND (id >= 10)")
    expect(page.get_by_text("no running job")).to_be_visible()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("It waits for a worker")).to_be_visible()
    again = Job.objects.get(retry_of=conflict.job_id)
    result = run(command_of(again), DeltaTable.open(str(place)), None)
    Job.objects.filter(pk=again.pk).update(
        state=Job.State.SUCCEEDED, committed_version=result.version, finished_at=timezone.now()
    )
    expect(page.locator("#rerun").get_by_text("It has committed as v3")).to_be_visible()
    assert page.evaluate(LEGIBLE) == []
    assert page.url.endswith(f"/conflicts/{conflict.pk}/#rerun")
    Table.objects.filter(pk=conflict.table_id).delete()
    shutil.rmtree(place)


def test_a_narrowed_list_is_a_link_a_file_and_a_zone(overview_page, story):
    page = overview_page
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


def test_a_repeated_conflict_is_assigned_and_muted_where_it_is_listed(overview_page, story):
    page = overview_page
    page.goto("/conflicts/repeated/?range=7d")
    row = page.locator("tr[id^=pair]").first
    row.get_by_text("Change…").click()
    row.get_by_label("Known").check()
    row.get_by_label("Assignee").fill(story.owner.username)
    row.get_by_label("Note").fill("see ticket 42")
    row.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile(r"range=7d#pair-\d+"))
    expect(row).to_contain_text("known")
    expect(row).to_contain_text("see ticket 42")
    row.get_by_text("Change…").click()
    row.get_by_label("Mute for").select_option("3")
    row.get_by_role("button", name="Mute").click()
    expect(row).to_contain_text("muted")
    StatementPair.objects.update(is_known=False, assignee=None, note="")
    Mute.objects.all().delete()


def test_arrow_keys_move_in_the_grid_of_runs_from_a_schedule_to_its_steps(overview_page, story):
    page = overview_page
    page.goto("/schedules/runs/?range=30d")
    page.get_by_role("link", name="orders nightly").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("a.outcome:focus")
    expect(first).to_have_attribute("title", re.compile("succeeded"))
    before = first.get_attribute("href")
    page.keyboard.press("ArrowRight")
    expect(page.locator("a.outcome:focus")).not_to_have_attribute("href", before)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("a.outcome:focus")).to_have_attribute("href", before)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Runs of orders nightly").wait_for()
    expect(page.get_by_role("rowheader").first).to_have_text("All steps")
    expect(page.get_by_role("link", name="7 d")).to_have_attribute("href", re.compile("schedule="))


def test_a_section_that_a_reader_opened_stays_open_while_the_page_renews_itself(
    overview_page, story
):
    page = overview_page
    page.goto(f"/jobs/{story.running.pk}/")
    page.get_by_text("Tasks and bytes of each step").click()
    details = page.locator("details", has_text="Tasks and bytes of each step")
    expect(details.get_by_role("rowheader", name="Find matches")).to_be_visible()
    JobEvent.objects.create(job=story.running, at=timezone.now(), message="a line that is new")
    expect(page.get_by_text("a line that is new")).to_be_visible(timeout=15_000)
    expect(details.get_by_role("rowheader", name="Find matches")).to_be_visible()


def test_rows_of_two_versions_are_compared_side_by_side(overview_page, story, tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    store = open_store(str(tmp_path / "prices"))
    write_first(store)
    old = {"id": pa.array(range(60), pa.int64()), "name": [f"n{n}" for n in range(60)]}
    write_commit(store, 1, write_rows(store, "a.parquet", old))
    new = {"id": pa.array(range(1, 61), pa.int64()), "name": [f"N{n}" for n in range(1, 61)]}
    write_commit(store, 2, remove("a.parquet"), write_rows(store, "b.parquet", new))
    table = make_table("sales.prices", uri=str(tmp_path / "prices"), version=2)
    for version in range(3):
        make_commit(table, version, "WRITE")
    page = overview_page
    page.goto(f"/tables/{table.pk}/history/2/")
    page.get_by_role("link", name="Row diff").click()
    expect(page.get_by_text("Not compared yet")).to_be_visible()
    page.get_by_label("Key columns").fill("id")
    page.get_by_role("button", name="Compare rows").click()
    expect(page.get_by_text("A worker is reading")).to_be_visible()
    preview_table(Preview.objects.get(table=table).pk)  # the light worker's part
    expect(page.get_by_role("row", name="~ changed 1 n1 N1", exact=True)).to_be_visible()
    expect(page.get_by_text("1 to 50 of 61 listed")).to_be_visible()
    page.get_by_role("link", name="Removed 1").click()
    expect(page.get_by_role("row", name="− removed 0 n0", exact=True)).to_be_visible()
    page.get_by_label("Where").fill("name = 'n7'")
    page.get_by_role("button", name="Compare again").click()
    preview_table(Preview.objects.filter(table=table).latest("pk").pk)
    expect(page.get_by_role("row", name="~ changed 7 n7 N7", exact=True)).to_be_visible()
    expect(page.get_by_text("1 to 1 of 1 listed")).to_be_visible()
    Table.objects.filter(pk=table.pk).delete()


def test_the_palette_leads_everywhere_by_keys_alone(overview_page, story):
    page = overview_page
    palette, chosen = page.locator("#palette"), page.locator("#palette [aria-selected=true]")

    def ask(text):
        page.keyboard.press("Control+k")
        expect(palette).to_be_visible()
        expect(chosen).to_have_count(1)  # offered before anything is typed
        page.keyboard.type(text)

    ask("sales.orders")
    option = palette.get_by_role("option", name="sales.orders v", exact=False).first
    expect(option).to_be_visible()
    while chosen.get_attribute("id") != option.get_attribute("id"):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="sales.orders", exact=True)).to_be_visible()
    ask("rows of")
    expect(chosen).to_contain_text("Rows of sales.orders")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tables/{story.orders.pk}/preview/")
    ask("gdpr")
    expect(palette.get_by_role("group", name="Writers")).to_contain_text("gdpr-eraser")
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    ask("dark th")
    expect(chosen).to_contain_text("Dark theme")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    ask("nothing is called so")
    expect(palette.get_by_text("Nothing found")).to_be_visible()
    assert Axe().run(page, options=RULES).response["violations"] == []


def test_the_palette_opens_the_typed_entry_even_after_fast_typing(overview_page, story):
    page = overview_page
    page.goto("/jobs/")
    page.keyboard.press("Control+k")
    page.keyboard.type("monitoring")
    page.keyboard.press("Enter")
    page.wait_for_url("**/monitoring/")


def test_the_palette_ignores_the_answer_to_an_earlier_text(overview_page, story):
    page, held = overview_page, []
    page.goto("/jobs/")
    page.route(re.compile(r"/search/\?q=(&|$)"), lambda route: held.append(route))
    with page.expect_request(re.compile(r"/search/")):
        page.keyboard.press("Control+k")
    text = page.locator("#palette-text")
    text.evaluate("field => { field.value = 'monitoring' }")
    text.press("Enter")
    with page.expect_response(re.compile(r"/search/")):
        held[0].continue_()
    expect(page.locator("#palette [role=option]").first).to_be_visible()
    text.dispatch_event("input")
    page.wait_for_url("**/monitoring/")
