"""Input in forms survives a slow line and the end of the session."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from lakeui.catalog.models import Discovery
from tests.e2e.conftest import PASSWORD

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
DELETE = "DELETE FROM sales.orders"
SLOW = {"offline": False, "latency": 300, "downloadThroughput": -1, "uploadThroughput": -1}


def test_a_slow_answer_takes_away_nothing_that_is_typed(overview_page, story):
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


def test_a_session_that_ends_leads_to_sign_in_and_back_with_what_was_typed(overview_page, story):
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
        page.locator("#id_confirm").wait_for(state="attached")
