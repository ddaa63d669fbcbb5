"""`manage.py up` from nothing: Spark fills the demo lake, and people use it by keyboard."""

import re
import sqlite3

import pytest
from playwright.sync_api import expect

from lakeui.local_stack.child import _session_of
from lakeui.local_stack.demo import STEPS
from tests.e2e.keyboard import Keyboard
from tests.lakeui.local_stack.test_up import Up
from tests.services import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.xdist_group("demo")]

A_JOB_MS = 90_000
A_STEP_S = 180  # also enough for the first step, which starts Spark
TRACE = """
26/11/20 02:31:07 ERROR MicroBatchExecution: Query nightly terminated with error
io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT] \
Files were added to partition [ordered_on=2026-11-03] by a concurrent update. Please try the \
operation again.
Conflicting commit: {"timestamp":1795198414146,"operation":"DELETE","operationParameters":\
{"predicate":["(ordered_on = DATE '2026-11-03')"]},"readVersion":2,"isolationLevel":\
"WriteSerializable","isBlindAppend":false,"operationMetrics":{"numRemovedFiles":"1"}}
\tat org.apache.spark.sql.delta.DeltaErrorsBase.concurrentAppendException(DeltaErrors.scala)
"""


class Demo(Up):
    """The stack with the demo lake, and queries of its database."""

    def ask(self, query: str) -> list[str]:
        connection = sqlite3.connect(f"file:{self.home}/lakeui.sqlite3?mode=ro", uri=True)
        try:
            return [row[0] for row in connection.execute(query)]
        finally:
            connection.close()

    def steps_ended(self) -> int:
        """Return the number of demo steps that have ended."""
        return self.ask(
            "SELECT COUNT(*) FROM local_stack_demostep WHERE state IN ('done', 'failed')"
        )[0]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    stack = Demo(tmp_path_factory.mktemp("demo") / "home")
    yield stack
    stack.stop_if_running()


@pytest.fixture(scope="module")
def session_state(browser, demo):
    """Yield the cookies of a user who followed the printed link."""

    def link() -> re.Match[str] | None:
        return re.search(r"(/login/\S+)\n", demo.log.read_text())

    wait_until(lambda: link() is not None, "the link", 60)
    context = browser.new_context(base_url=f"http://127.0.0.1:{demo.port}")
    context.new_page().goto(link()[1])
    yield context.storage_state()
    context.close()


@pytest.fixture
def context(browser, demo, session_state):
    opened = browser.new_context(
        base_url=f"http://127.0.0.1:{demo.port}", storage_state=session_state
    )
    opened.set_default_timeout(15_000)
    yield opened
    opened.close()


@pytest.fixture
def keyboard(page):
    page.goto("/")
    return Keyboard(page)


def expect_commit(page) -> None:
    expect(page.get_by_text("Committed as v")).to_be_visible(timeout=A_JOB_MS)


def open_tab(keyboard: Keyboard, table: str, tab: str) -> None:
    keyboard.keys("gt")
    expect(keyboard.page.get_by_role("heading", name="Tables", exact=True)).to_be_visible()
    keyboard.follow(table)
    expect(keyboard.page.get_by_role("heading", name=table, exact=True)).to_be_visible()
    tabs = keyboard.page.get_by_role("navigation", name=table, exact=True)
    keyboard.follow(tab, exact=False, within=tabs)
    expect(tabs.get_by_role("link", name=tab)).to_have_attribute("aria-current", "page")


def test_the_demo_lake_is_filled_and_its_conflicts_are_recorded(demo):
    wait_until(demo.answers, "the first page", 60)
    ended = 0
    while ended < len(STEPS):
        wait_until(lambda had=ended: demo.steps_ended() > had, f"step {ended + 1}", A_STEP_S)
        ended = demo.steps_ended()
    failed = "SELECT title || ': ' || message FROM local_stack_demostep WHERE state = 'failed'"
    assert demo.ask(failed) == []
    assert set(demo.ask("SELECT exception FROM conflicts_conflict WHERE kind = 'aborted'")) >= {
        "ConcurrentAppendException",
        "ConcurrentDeleteReadException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentTransactionException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }
    assert demo.ask("SELECT COUNT(*) FROM conflicts_conflict WHERE kind = 'resolved'") >= [2]
    stopped = "SELECT error_code FROM jobs_job WHERE state = 'failed'"
    assert demo.ask(stopped) == ["DELTA_SCHEMA_CHANGED_WITH_VERSION"]
    assert demo.ask("SELECT name FROM catalog_table WHERE mirror_error <> ''") == []


def test_why_a_job_lost_is_found_and_it_passes_when_run_again(keyboard):
    page = keyboard.page
    keyboard.keys("gc")
    keyboard.reach(page.locator("a.filter", has_text="Aborted"))
    page.keyboard.press("Enter")
    lost = page.get_by_role("row").filter(has_text="sales.returns")
    keyboard.reach(lost.get_by_role("link", name=re.compile("^c-")).first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="How to avoid it")).to_be_visible()
    expect(page.get_by_text("enable deletion vectors").first).to_be_visible()
    panel = page.locator("#rerun")
    keyboard.press("Run again", within=panel)
    expect(panel.get_by_text("It has committed as")).to_be_visible(timeout=120_000)


def test_a_table_is_made_eligible_for_row_level_concurrency(keyboard):
    page = keyboard.page
    open_tab(keyboard, "sales.returns", "Row-level eligibility")
    expect(page.get_by_role("heading", name="Not eligible for row-level")).to_be_visible()
    keyboard.press("Set as a job…")
    expect(page.get_by_text("The protocol is upgraded")).to_be_visible()
    keyboard.press("Run it")
    expect_commit(page)
    open_tab(keyboard, "sales.returns", "Row-level eligibility")
    expect(page.get_by_role("heading", name=re.compile("^Eligible"))).to_be_visible()


def test_a_level_is_changed_once_the_losing_writes_are_shown(keyboard):
    page = keyboard.page
    open_tab(keyboard, "sales.orders", "What if")
    expect(page.get_by_role("heading", name="All four settings")).to_be_visible()
    open_tab(keyboard, "sales.orders", "Isolation")
    keyboard.choose("level", "Serializable")
    keyboard.press("Preview")
    expect(page.get_by_role("heading", name="What it would do")).to_be_visible()
    keyboard.press("Set as a job")
    expect_commit(page)
    open_tab(keyboard, "sales.orders", "Isolation")
    expect(page.locator(".facts").get_by_text("Serializable set", exact=True)).to_be_visible()


def test_an_earlier_version_is_restored(keyboard):
    page = keyboard.page
    open_tab(keyboard, "sales.order_items", "History")
    keyboard.follow("v3")
    keyboard.follow("Restore to it…")
    keyboard.press("Show what it does")
    keyboard.type("Type sales.order_items to run it", "sales.order_items")
    keyboard.press("Run it")
    expect_commit(page)


def test_vacuum_lists_the_files_before_it_deletes_them(keyboard):
    page = keyboard.page
    open_tab(keyboard, "web.visits", "Files")
    keyboard.follow("VACUUM…")
    keyboard.press("Dry run")
    expect(page.get_by_text("The plan is below.")).to_be_visible(timeout=A_JOB_MS)
    expect(page.get_by_text(re.compile(r"part-\S+\.parquet")).first).to_be_visible()
    keyboard.follow("Run it")
    keyboard.press("Run it")
    expect_commit(page)


def test_a_pasted_stack_trace_leads_to_the_version_that_won(keyboard):
    page = keyboard.page
    keyboard.follow("Explain an error")
    keyboard.type("Error, stack or log", TRACE)
    keyboard.type("Table, if the message does not name it", "sales.order_items")
    keyboard.press("Explain")
    expect(
        page.get_by_role("heading", name="New data that a write should have read")
    ).to_be_visible()
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()
    keyboard.press("Record conflict")
    expect(page.get_by_role("heading", name="How to avoid it")).to_be_visible()


def test_the_stack_ends_without_a_trace_and_does_not_fill_the_lake_twice(demo):
    wait_until(demo.answers, "the first page", 60)
    jobs = demo.ask("SELECT COUNT(*) FROM jobs_job")
    children = demo.children()
    assert any("java" in command for command in children.values())
    demo.stop()
    assert [pid for pid in children if _session_of(pid) is not None] == []

    demo.process = demo.start()
    wait_until(demo.answers, "the first page of the second run", 60)
    demo_log = demo.home / "logs/demo.log"
    wait_until(lambda: demo_log.read_text().count("complete") == 2, "the second demo", 60)
    assert demo.ask("SELECT COUNT(*) FROM jobs_job") == jobs
