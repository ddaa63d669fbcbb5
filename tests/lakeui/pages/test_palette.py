"""The command palette: its entries by user, and the equivalent search page without scripts."""

import html
import re

import pytest

from lakeui.jobs.models import Job
from tests.lakeui.factories import make_table

HTMX = {"HX-Request": "true"}


def options(client, text="", **more):
    page = client.get("/search/", {"q": text, **more}, headers=HTMX)
    assert page.status_code == 200
    pairs = re.findall(r'role="option" id="[^"]+"\s+tabindex="-1"\s+href="([^"]+)"[^>]*><span>([^<]+)', page.text)  # fmt: skip
    return {label: html.unescape(address) for address, label in pairs}


@pytest.mark.parametrize("who", ["owner", "operator", "viewer", "stranger"])
def test_every_offered_address_opens(client_for, lake, who):
    client = client_for(who)
    offered = {}
    for text in ("", "a", "e", "table", "of", "settings", "new", "sales", "delta.", "optimize"):
        offered |= options(client, text, table=lake.table.pk)
    assert offered
    refused = {
        (label, address): status
        for label, address in offered.items()
        if (status := client.get(address).status_code) not in (200, 302)
    }
    assert refused == {}


def test_pages_and_actions_of_the_open_table_come_first(client_for, lake):
    offered = options(client_for("owner"), "", table=lake.table.pk)
    assert next(iter(offered)) == "Summary of sales.orders"
    found = options(client_for("owner"), "sales.orders vacuum", table=lake.table.pk)
    assert found["Vacuum sales.orders"] == f"/jobs/new/?table={lake.table.pk}&kind=vacuum"
    setting = options(client_for("owner"), "isolationlevel", table=lake.table.pk)
    assert setting["delta.isolationLevel of sales.orders"].endswith("/isolation/")


def test_an_action_is_found_by_any_of_its_words_and_of_its_table(client_for, lake):
    make_table("crm.orders")
    Job.objects.all().delete()  # a statement is found too
    for text in ("compact sales", "sales.orders optimize", "small files sales ord"):
        address = f"/jobs/new/?table={lake.table.pk}&kind=optimize"
        assert address in options(client_for("owner"), text).values(), text
        assert address not in options(client_for("viewer"), text).values(), text
    assert list(options(client_for("owner"), "upsert orders")) == [
        "Merge into crm.orders",
        "Merge into sales.orders",
    ]
    compact = options(client_for("owner"), "compact", table=lake.table.pk)
    assert next(iter(compact)) == "Optimize sales.orders"


def test_nothing_is_offered_that_the_person_may_not_do(client_for, lake, settings):
    assert "New job" not in options(client_for("viewer"), "new")
    assert "Register a table" not in options(client_for("operator"), "register")
    assert "Audit log" not in options(client_for("viewer"), "audit")
    assert options(client_for("stranger"), "", table=lake.table.pk) == options(
        client_for("stranger"), ""
    )
    settings.READ_ONLY = True
    assert "New job" not in options(client_for("owner"), "new")


@pytest.mark.parametrize("text", ["\0", "%", "' OR 1=1", "x" * 300, "v" + "9" * 40])
def test_odd_texts_are_searched_for_like_any(client_for, lake, text):
    assert client_for("owner").get("/search/", {"q": text, "table": "9" * 40}, headers=HTMX).status_code in (200, 400)  # fmt: skip


def test_the_search_page_finds_pages_too_and_shows_nothing_without_a_match(client_for, lake):
    client = client_for("owner")
    assert 'href="/monitoring/">Monitoring</a></td>' in client.get("/search/?q=monitoring").text
    assert "Nothing found" in client.get("/search/?q=nothing-is-called-so").text
    fragment = client.get("/search/?q=nothing-is-called-so", headers=HTMX).text
    assert 'aria-disabled="true"' in fragment


def test_an_exact_name_does_not_lead_the_palette_away(client_for, lake):
    answer = client_for("owner").get("/search/?q=sales.orders", headers=HTMX)
    assert answer.status_code == 200
    assert f'href="/tables/{lake.table.pk}/"' in answer.text
