"""Each page in a real browser: accessible in both themes, complete and legible at every width."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import resolve
from playwright.sync_api import expect

from lakeui.jobs.models import Job, Schedule
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table, make_user
from tests.lakeui.pages.conftest import PAGES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
LEGIBLE = Path(__file__).with_name("legible.js").read_text(encoding="utf-8")
BROAD = """() => [...document.querySelectorAll(".scroll:has(> .data)")].filter(
  box => box.scrollWidth > box.clientWidth * 1.25
).map(box => `${box.getAttribute("aria-label") || box.getAttribute("aria-labelledby")}: ` +
  `${box.scrollWidth} px in ${box.clientWidth}`)"""
YESTERDAY = """() => {
  for (const time of document.querySelectorAll("time:not(.log *)"))  // a log has no days
    if (/^\\d\\d:\\d\\d/.test(time.textContent.trim())) time.prepend("30 Sep ");
}"""
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],  # do not describe the nodes that pass
}
SIZES = {width: {"width": width, "height": 800} for width in (1280, 360, 2560)}
RULES_OF_COLORS = RULES | {"runOnly": ["color-contrast", "link-in-text-block"]}


def paths(story):
    table = f"/tables/{story.orders.pk}/"
    items = next(other for other in story.others if other.name == "sales.order_items")
    listed = [
        "/", "/?heat=partition&show=attention&sort=-size", "/attention/", "/tables/", "/tables/?q=no-such-table", "/tables/register/", "/tables/upload/", "/tables/clone/", table,
        f"{table}schema/", f"{table}concurrency/?span=3000", f"/jobs/new/?table={story.orders.pk}&kind=merge",
        f"{table}history/", f"{table}history/?open=4805", f"{table}history/4797/", f"{table}diff/4800...4806/",
        f"{table}concurrency/?pick=c-{story.conflict.pk}", f"{table}concurrency/?x=time&span=60",
        f"{table}isolation/?level=Serializable&cell=UPDATE|DELETE", f"{table}eligibility/",
        f"{table}what-if/", f"{table}files/", f"{table}preview/", "/audit/", "/tokens/", "/sessions/", "/schedules/", "/schedules/new/", "/monitoring/",
        "/monitoring/?range=30d", "/conflicts/repeated/?range=30d", "/schedules/runs/?range=30d",
        "/conflicts/explain/", "/jobs/", f"/jobs/{story.running.pk}/",
        f"/jobs/new/?table={story.orders.pk}", f"/jobs/new/?table={story.orders.pk}&kind=append",
        "/conflicts/", f"/conflicts/{story.conflict.pk}/", f"/conflicts/?table={story.orders.pk}",
        "/search/?q=sales", "/tables/987654/", "/conflicts/explain/?sample=here",
        f"/tables/{items.pk}/eligibility/?state=fixed",
    ]  # fmt: skip
    views = {resolve(urlsplit(path).path).url_name for path in listed}
    keys = {"table": story.orders.pk, "job": story.running.pk, "conflict": story.conflict.pk}
    pages = (path for name, path in PAGES.items() if name != "job log")  # a download
    others = (path.format(**keys) for path in pages)
    return listed + [path for path in others if resolve(urlsplit(path).path).url_name not in views]


def _list_violations(page, path, rules):
    return [
        f"{path}: {violation['id']}: {node['html'][:160]}"
        for violation in Axe().run(page, options=rules).response["violations"]
        for node in violation["nodes"][:3]
    ]


def test_every_page_is_accessible_fits_its_window_and_can_be_read(overview_page, story):
    """Load each page once, in light and dark colors at each width.

    A theme changes colors alone, as `test_a_theme_changes_nothing_but_colors` checks.
    """
    faults = []
    for path in paths(story):
        overview_page.set_viewport_size(SIZES[1280])
        overview_page.emulate_media(color_scheme="light", reduced_motion="reduce")
        overview_page.goto(path)
        faults += _list_violations(overview_page, path, RULES)
        overview_page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        faults += _list_violations(overview_page, path, RULES_OF_COLORS)
        overview_page.evaluate(YESTERDAY)  # moments of other days are longer
        for width, size in SIZES.items():
            overview_page.set_viewport_size(size)
            if overview_page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                faults.append(f"{path}: scrolls sideways at {width}")
            faults += [f"{path} at {width}: {said}" for said in overview_page.evaluate(LEGIBLE)]
    assert "\n".join(faults) == ""


@pytest.mark.parametrize("width", [1280, 1440])
def test_a_head_is_one_row_and_the_lake_fits_beside_the_sidebar(overview_page, story, width):
    overview_page.set_viewport_size({"width": width, "height": 800})
    overview_page.goto(f"/tables/{story.orders.pk}/")
    tops = "facts => facts.map(fact => fact.getBoundingClientRect().top)"
    assert len(set(overview_page.locator(".facts-table > div").evaluate_all(tops))) == 1
    overview_page.goto("/")
    overview_page.evaluate(YESTERDAY)
    lake = overview_page.locator(".scroll[aria-labelledby=tables]")
    assert lake.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_text_that_cannot_be_read_is_found(page):
    """The loop over all pages relies on this; dialogs, ellipses and hidden text are no faults."""
    page.set_content("""
        <p>one</p><p style="margin-top: -2em">two</p>
        <p style="width: 30px; overflow: hidden; white-space: nowrap">much too long a name</p>
        <p style="height: 10px; overflow: hidden">high<br>letters</p>
        <p style="width: 30px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis">shortened</p>
        <p style="width: 8px; overflow-wrap: anywhere">squeezed in</p>
        <div class="panel" style="width: 99px">broad <code>lakeui.featureEnablement.resolution</code></div>
        <p>under</p><p style="margin-top: -2em; opacity: 0">nothing</p>
        <p>A <svg width="12" height="12" style="display: block"></svg> ended</p>
        <dialog open style="position: fixed; inset: 0">a question</dialog>
    """)
    assert page.evaluate(LEGIBLE) == [
        "squeezed: squeezed in",
        "beyond its panel: lakeui.featureEnablement.resolution",
        "overprinted: one | two",
        "cut: much too long a name",
        "cut below: high letters",
        "a sign above its words: A ended",
    ]


@pytest.mark.parametrize("width", [800, 1024])
def test_the_top_bar_holds_its_switches_in_a_narrow_window(overview_page, story, width):
    overview_page.set_viewport_size({"width": width, "height": 800})
    overview_page.goto(f"/tables/{story.orders.pk}/concurrency/")
    bar = overview_page.locator(".topbar").bounding_box()
    for selector in (
        ".crumbs [aria-current]",
        ".search",
        ".switches .seg >> nth=0",
        ".switches .seg >> nth=1",
        ".user",
    ):
        box = overview_page.locator(f".topbar {selector}").bounding_box()
        assert box["y"] >= bar["y"], selector
        assert box["y"] + box["height"] <= bar["y"] + bar["height"], selector
        assert box["x"] + box["width"] <= bar["x"] + bar["width"], selector


def test_colors_that_cannot_be_read_are_found_by_their_rules_alone(page):
    """The dark theme relies on this."""
    page.set_content("""<html lang="en"><title>a</title><p style="color: #888; background: #999">one</p>
        <p style="color: #000">Read <a href="#a" style="color: #111; text-decoration: none">more</a>.</p>""")
    violations = Axe().run(page, options=RULES_OF_COLORS).response["violations"]
    assert {violation["id"] for violation in violations} == set(RULES_OF_COLORS["runOnly"])


def test_the_sign_in_page_is_accessible(page):
    page.goto("/login/")
    assert Axe().run(page, options=RULES).response["violations"] == []


def test_a_printed_page_has_its_text_without_controls(overview_page, story):
    overview_page.set_viewport_size({"width": 718, "height": 1000})
    overview_page.emulate_media(media="print")
    overview_page.goto(f"/conflicts/{story.conflict.pk}/")
    assert overview_page.locator("h1").is_visible()
    assert not overview_page.locator(".sidebar, .topbar, .btn >> visible=true").count()
    assert overview_page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for part in overview_page.locator("details").all():
        part.evaluate("each => each.open = true")
    assert overview_page.evaluate(LEGIBLE) == []


def test_a_question_stays_on_the_screen_of_a_telephone(overview_page, story):
    overview_page.set_viewport_size({"width": 360, "height": 740})
    overview_page.goto(f"/jobs/{story.running.pk}/")
    overview_page.locator(".menu > summary", has_text="Cancel").click()
    question = overview_page.locator(".menu[open] > .confirm")
    expect(question).to_be_in_viewport(ratio=1)
    box = question.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert box["y"] + box["height"] <= 740


def test_the_name_of_a_row_stays_while_its_table_is_moved_sideways(overview_page, story):
    overview_page.set_viewport_size({"width": 360, "height": 740})
    overview_page.goto("/tables/")
    table, name = overview_page.locator(".scroll").first, overview_page.locator("tbody th").first
    before = name.bounding_box()["x"]
    assert table.evaluate("each => { each.scrollLeft = 150; return each.scrollLeft }") == 150
    assert name.bounding_box()["x"] == before


def test_the_reason_for_comparing_rows_is_never_truncated_where_the_facts_are_in_one_line(
    overview_page, story
):
    overview_page.set_viewport_size({"width": 1440, "height": 900})
    overview_page.goto(f"/tables/{story.orders.pk}/")
    reason = overview_page.locator(
        ".facts-table dd", has=overview_page.locator("[title*='clustered']")
    )
    assert reason.evaluate("each => each.scrollWidth <= each.clientWidth")


LONG_NAME = (
    "analytics_of_all_regions." + "orders_by_customer_and_channel_" * 5 + "for_finance_and_audit"
)
LONG_CONDITION = " OR ".join(f"status = 'state-{number:04}'" for number in range(180))
LONG_STATEMENT = f"UPDATE t SET discount = 0.15 WHERE {LONG_CONDITION}"  # noqa: S608 - never run


@pytest.fixture
def long_names(story):
    """Return a table with names and statements of maximum length and something of every kind."""
    columns = [f"measure_{number:02}_of_the_period" for number in range(58)]
    fields = [
        {"name": name, "type": "decimal(38,18)", "nullable": True, "metadata": {}}
        for name in ("id", "column_" * 28 + "last", *columns)
    ]
    writer = make_user("service-account-of-the-nightly-reconciliation-of-all-regions" * 2)
    table = make_table(
        LONG_NAME, schema={"type": "struct", "fields": fields}, version=3,
        clustering_columns=[fields[1]["name"], columns[0], columns[1]],
    )  # fmt: skip
    for version, operation in enumerate(("CREATE TABLE", "WRITE", "UPDATE", "DELETE")):
        where = {"predicate": LONG_CONDITION} if version > 1 else {}
        make_commit(
            table, version, operation, user_name=writer.username, operation_parameters=where
        )
    failed = make_job(
        table, "update", statement=LONG_STATEMENT, state=Job.State.FAILED, requested_by=writer,
        error_code="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", error_message=LONG_STATEMENT,
        parameters={"where": LONG_CONDITION},
    )  # fmt: skip
    running = make_job(table, "update", statement=LONG_STATEMENT, state=Job.State.RUNNING)
    conflict = make_conflict(
        table, job=failed, current_user_name=writer.username, winner_user_name=writer.username,
        winning_version=3, read_version=1, current_predicate=LONG_CONDITION,
    )  # fmt: skip
    schedule = Schedule.objects.create(
        table=table, name="schedule-" * 20, kind="update", parameters=failed.parameters,
        cron="0 3 * * *", owner=writer, enabled=True,
    )  # fmt: skip
    Job.objects.filter(pk=running.pk).update(schedule=schedule)
    paths = {name: path for name, path in PAGES.items() if name not in ("job log", "row diff")}
    keys = {"table": table.pk, "job": failed.pk, "conflict": conflict.pk}
    yield table, [path.format(**keys) for path in paths.values()] + [
        f"/jobs/{running.pk}/", f"/jobs/new/?table={table.pk}&kind=update",
        f"/search/?q={LONG_NAME[:60]}", f"/schedules/{schedule.pk}/edit/",
        f"/tables/{table.pk}/history/?open=3", "/?heat=partition&show=attention",
    ]  # fmt: skip
    for row in (schedule, conflict, failed, running, table, writer):
        row.delete()


def test_long_names_and_statements_leave_every_page_readable(overview_page, long_names):
    faults = []
    for path in long_names[1]:
        answer = overview_page.goto(path)
        assert answer.status == 200, path
        for width in (390, 1280, 1920):
            overview_page.set_viewport_size({"width": width, "height": 900})
            found = overview_page.evaluate(LEGIBLE)
            if overview_page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append("scrolls sideways")
            if width >= 1280:
                found += overview_page.evaluate(BROAD)
            faults += [f"{path} at {width}: {fault}" for fault in found]
    assert "\n".join(faults) == ""


def test_long_names_leave_statements_types_and_entries_their_room(overview_page, long_names):
    table, _ = long_names
    overview_page.set_viewport_size({"width": 1280, "height": 900})
    overview_page.goto("/jobs/")
    assert overview_page.locator("td.what").first.bounding_box()["width"] >= 200
    overview_page.goto(f"/tables/{table.pk}/schema/")
    kind = overview_page.get_by_role("columnheader", name="Type").bounding_box()
    assert kind["x"] + kind["width"] < 1280
    overview_page.goto(f"/tables/{table.pk}/history/")
    heights = "rows => rows.map(row => row.getBoundingClientRect().height)"
    assert max(overview_page.locator("tr[id^=v]").evaluate_all(heights)) <= 52
    overview_page.goto("/audit/")
    entries = overview_page.get_by_role("group", name="Entries")
    assert entries.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_a_telephone_shows_a_tab_below_a_short_head_and_attention_without_moving(
    overview_page, story
):
    overview_page.set_viewport_size({"width": 390, "height": 844})
    overview_page.goto(f"/tables/{story.orders.pk}/history/")
    assert overview_page.locator("nav.tabs").bounding_box()["y"] < 400
    overview_page.goto("/attention/")
    for region in overview_page.locator(".scroll").all():
        assert region.evaluate("each => each.scrollWidth <= each.clientWidth")
