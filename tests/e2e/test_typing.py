"""Input in forms survives a slow line and the end of the session."""

from datetime import timedelta
from inspect import iscoroutinefunction
from urllib.parse import unquote

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import resolve, reverse
from django.utils import timezone
from playwright.sync_api import expect

from lakeui.api.models import ApiToken
from lakeui.catalog.models import Discovery, TableKey
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.uploads import keep_upload
from lakeui.monitoring.models import AlertChannel, AlertRule, Mute
from lakeui.pages.urls import urlpatterns
from lakeui.sign_on.models import BrowserSession, Way
from tests.e2e.conftest import PASSWORD
from tests.lakeui.catalog.test_reads import make_read
from tests.lakeui.factories import make_job
from tests.lakeui.pages.test_every_page import NOT_PAGES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
DELETE = "DELETE FROM sales.orders"
SLOW = {"offline": False, "latency": 300, "downloadThroughput": -1, "uploadThroughput": -1}


def test_a_slow_answer_removes_no_typed_text(overview_page, story):
    page = overview_page
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", SLOW)
    page.goto(f"/jobs/new/?table={story.orders.pk}")
    page.locator("#id_sql").press_sequentially(DELETE, delay=5)
    page.locator("#id_confirm").wait_for()
    page.locator("#id_reason").press_sequentially("ticket 42", delay=120)
    page.locator("#id_sql").press_sequentially(" WHERE order_id > 0", delay=5)
    page.locator("#id_sql").press("Control+A")
    page.locator("#id_sql").press_sequentially("TRUNCATE TABLE sales.orders", delay=5)
    page.locator("#id_confirm").press_sequentially("sales.orders", delay=120)
    expect(page.locator("#understood pre").first).to_have_text("TRUNCATE TABLE sales.orders")
    expect(page.locator("#id_confirm")).to_have_value("sales.orders")
    expect(page.locator("#id_confirm")).to_be_focused()
    expect(page.locator("#id_reason")).to_have_value("ticket 42")


def test_a_tick_stays_at_its_row_while_the_list_of_a_search_grows(overview_page, story):
    page, now = overview_page, timezone.now()
    search = Discovery.objects.create(
        root="s3://demo-lake", naming="{path}", requested_at=now, bound=9
    )
    for name in ("b", "c"):
        search.tables.create(place=f"s3://demo-lake/{name}", name=name)
    page.goto(f"/tables/discover/?run={search.pk}")
    page.get_by_label("Register c").check()
    search.tables.create(place="s3://demo-lake/a", name="a")
    page.get_by_label("Register a").wait_for()
    ticked = page.locator("input[name=chosen]:checked")
    assert ticked.evaluate_all("all => all.map(each => each.ariaLabel)") == ["Register c"]
    search.delete()


def test_a_session_that_ends_leads_to_sign_in_and_back_with_the_typed_text(overview_page, story):
    page = overview_page
    address = f"/jobs/new/?table={story.orders.pk}"
    for leave in (
        lambda: page.locator("#id_sql").press_sequentially(" WHERE order_id = 7", delay=5),
        lambda: page.get_by_role("button", name="Show what it").click(),
    ):
        page.goto(address)
        page.fill("#id_sql", DELETE)
        page.locator("#id_confirm").wait_for()
        page.fill("#id_reason", "ticket 42")
        page.context.clear_cookies(name="sessionid")
        leave()
        page.wait_for_url("**/login/**")
        page.fill("#id_username", story.owner.username)
        page.fill("#id_password", PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(f"**{address}")
        assert page.locator("#id_sql").input_value().startswith(DELETE)
        expect(page.locator("#id_reason")).to_have_value("ticket 42")
        expect(page.locator("#understood pre").first).to_contain_text(DELETE)


def sign_in_elsewhere(page, person):
    """Sign in again in another tab, which makes the forms of this one too old."""
    page.context.clear_cookies(name="sessionid")
    other = page.context.new_page()
    other.goto("/login/")
    other.fill("#id_username", person.username)
    other.fill("#id_password", PASSWORD)
    other.get_by_role("button", name="Sign in", exact=True).click()
    other.wait_for_url("**/")
    other.close()


def test_a_sign_in_in_another_tab_loses_no_input(overview_page, story):
    page = overview_page
    page.goto(f"/jobs/new/?table={story.orders.pk}")
    page.fill("#id_sql", DELETE)
    page.fill("#id_reason", "ticket 42")
    sign_in_elsewhere(page, story.owner)
    page.locator("#id_sql").press_sequentially(" WHERE order_id = 7", delay=5)
    statement = page.locator("#understood pre").first
    expect(statement).to_have_text(f"{DELETE} WHERE order_id = 7")
    expect(page.locator("#id_reason")).to_have_value("ticket 42")
    page.goto("/tables/clone/")
    page.fill("#id_name", "sales.copy")
    sign_in_elsewhere(page, story.owner)
    page.evaluate(SEND)
    page.get_by_role("link", name="Back to the form").click()
    expect(page.locator("#id_name")).to_have_value("sales.copy")


FORMS = """() => {
  for (const part of document.querySelectorAll("details")) part.open = true;
  return [...document.forms].filter(form => form.method === "post").map(form => new URL(form.action).pathname);
}"""
_INPUTS = """const inputs = [...document.forms].filter(form => form.method === "post").flatMap(
  form => [...form.elements].filter(field => field.name && !field.disabled && field.checkVisibility()
    && !["hidden", "password", "file", "submit", "button"].includes(field.type)));"""
FILL = f"""() => {{ {_INPUTS}
  for (const field of inputs)
    if (field.type === "checkbox") field.checked = !field.checked;
    else if (field.options) field.selectedIndex = field.options.length - 1;
    else if (field.type === "number") field.value = "7";
    else if (field.type !== "radio") field.value += "0";
  inputs.find(field => /text|search|textarea/.test(field.type))?.focus();
}}"""
STATES = f"""() => {{ {_INPUTS}
  return inputs.map(field => [field.name, /checkbox|radio/.test(field.type) ? field.checked : field.value]);
}}"""
SEND = f"""() => {{ {_INPUTS}
  inputs[0].form.noValidate = true;
  inputs[0].form.requestSubmit();
}}"""


@pytest.fixture
def form_addresses(story):
    """Return the address of every page, in each of the states that show another form."""
    table, now, person = story.orders, timezone.now(), story.owner
    channel = AlertChannel.objects.create(name="on-call", kind="webhook")
    rule = AlertRule.objects.create(name="failures", condition="failed_job", channel=channel)
    search = Discovery.objects.create(
        root="s3://demo-lake", naming="{path}", requested_at=now, bound=9
    )
    search.tables.create(place="s3://demo-lake/b", name="b")
    key = TableKey.objects.create(table=table, kind="primary", name="pk", columns=["order_id"])
    mute = Mute.objects.create(about="failed_job", table=table, until=now + timedelta(days=1))
    deletion = make_job(
        table, "truncate", state=Job.State.FAILED, requested_by=person,
        statement=f"TRUNCATE TABLE {table.name}",
    )  # fmt: skip
    upload = keep_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), person)
    keys = {
        "job": deletion.pk, "conflict": story.conflict.pk, "table-upload-preview": upload.pk,
        "schedule-edit": Schedule.objects.first().pk,
    }  # fmt: skip
    read = make_read(table, person, began_at=now, ago=-timedelta(minutes=9))
    other = Client()
    other.force_login(person)
    session = BrowserSession.objects.create(
        user=person, session_key=other.session.session_key, way=Way.PASSWORD, started_at=now,
        expires_at=now + timedelta(days=1),
    )  # fmt: skip
    states = {
        "job-new": [f"?table={table.pk}{kind}" for kind in ("", "&kind=merge", "&kind=append")],
        "schedule-new": [f"?table={table.pk}"],
        "search": ["?q=sales"],
        "alerts": ["", f"?remove={channel.pk}&remove_rule={rule.pk}", "channels/", f"channels/{channel.pk}/", f"rules/{rule.pk}/"],
        "conflict-repeated": ["?range=30d"],
        "table-discover": [f"?run={search.pk}"],
        "explain": ["", "?sample=here"],
        "table-isolation": ["?level=Serializable&cell=UPDATE|DELETE"],
        "session-list": [f"?end={session.public_id}"],
        "token-list": [f"?revoke={ApiToken.objects.first().public_id}"],
    }  # fmt: skip
    given = {"older": 4800, "newer": 4806, "version": 4797}
    pages = [
        (route.name, reverse(route.name, kwargs={
            name: keys.get(route.name, table.pk) if name == "pk" else given[name]
            for name in route.pattern.converters
        }))
        for route in urlpatterns if route.name not in NOT_PAGES
    ]  # fmt: skip
    yield [
        f"/jobs/{story.running.pk}/",
        *(address + state for name, address in pages for state in states.get(name, [""])),
    ]
    for row in (rule, channel, search, key, mute, deletion, upload, read, session):
        row.delete()


def list_post_only(person, job):
    """Return the names of addresses that take a form and are no page themselves."""
    client, names = Client(), set()
    client.force_login(person)
    keys = {"int": 1, "uuid": job.pk}
    for route in urlpatterns:
        if not iscoroutinefunction(route.callback):
            kinds = {
                n: type(kind).__name__[:-9].lower() for n, kind in route.pattern.converters.items()
            }
            answer = client.get(reverse(route.name, kwargs={n: keys[k] for n, k in kinds.items()}))
            names |= {route.name} if answer.status_code == 405 else set()
    return names


def type_slowly(page, line):
    """Type into each form while answers take two seconds; return the state of every field."""
    page.evaluate(FILL)
    line.send("Network.emulateNetworkConditions", SLOW | {"latency": 2000})
    page.keyboard.type("1")
    if page.locator("main [hx-trigger*=every], main form[hx-trigger*=input]").count():
        with page.expect_response(lambda answer: "hx-request" in answer.request.headers):
            page.clock.run_for(21_000)
            page.keyboard.type("2")
    line.send("Network.emulateNetworkConditions", SLOW | {"latency": 0})
    page.keyboard.type("3")
    assert page.evaluate("document.activeElement.value ?? '13'")[-2:] in {"13", "23"}, page.url
    return page.evaluate(STATES)


def test_no_form_loses_its_input(overview_page, story, form_addresses, address, session_key):
    page, lost, seen = overview_page, {}, set()
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session_key, "url": address}
    page.clock.install()
    line = page.context.new_cdp_session(page)
    for path in form_addresses:
        page.goto(path)
        seen |= {resolve(action).url_name for action in page.evaluate(FORMS)}
        if not page.evaluate(STATES):
            continue
        typed = type_slowly(page, line)
        page.context.clear_cookies(name="sessionid")
        page.evaluate(SEND)
        page.wait_for_url("**/login/**")
        page.context.add_cookies([cookie])
        page.reload()
        page.evaluate(FORMS)
        back = page.evaluate(STATES)
        if unquote(page.url) != address + path or back != typed:
            lost[path] = page.url, [state for state in typed if state not in back]
    assert lost == {}
    assert list_post_only(story.owner, story.running) <= seen
