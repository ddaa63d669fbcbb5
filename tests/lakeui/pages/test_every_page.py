"""What holds for every page: policy, markup, the number of queries, bad input."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.lakeui.pages.conftest import SmallLake

NAMES = (
    "overview", "tables", "table", "schema", "history", "version", "diff", "concurrency", "isolation",
    "eligibility", "what-if", "files", "jobs", "jobs of a table", "job", "schedules", "monitoring",
    "conflicts", "conflicts of a table", "conflict", "explain", "search", "audit",
    "tokens", "preview",
)  # fmt: skip
MORE = {
    "new schedule": "/schedules/new/?table={table}",
    "new job": "/jobs/new/?table={table}",
    "form of a job": "/jobs/new/?table={table}&kind=optimize",
    "statement": "/jobs/new/?table={table}&sql=OPTIMIZE+sales.orders",
    "choose a table": "/jobs/new/",
    "register": "/tables/register/",
    "upload": "/tables/upload/",
    "clone": "/tables/clone/",
    "nothing there": "/tables/987654/",
    "nothing matches": "/tables/?q=no-table-is-called-so",
    "error": "/tables/?health=splendid",
}
QUERIES = {
    "overview": 36, "tables": 10, "table": 16, "schema": 17, "history": 21, "version": 21, "diff": 19, "concurrency": 23,
    "isolation": 23, "eligibility": 16, "what-if": 15, "files": 16, "jobs": 10, "job": 15, "schedules": 8,
    "monitoring": 16, "conflicts": 10, "conflict": 14, "explain": 7, "search": 11, "audit": 14, "tokens": 10, "preview": 18,
}  # fmt: skip


class _Markup(HTMLParser):
    """Collects what a strict policy would block, ids, and controls without a name."""

    def __init__(self):
        super().__init__()
        self.faults, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "style" in given or tag == "style" or any(name.startswith("on") for name in given):
            self.faults.append((tag, given))
        if tag == "script" and not given.get("src"):
            self.faults.append((tag, given))
        for name in ("src", "href"):
            if tag != "a" and (given.get(name) or "").startswith(("http:", "https:", "//")):
                self.faults.append((tag, given[name]))
        if "id" in given:
            self.ids.append(given["id"])


def _paths(lake):
    return lake.paths() | {k: v.format(table=lake.table.pk) for k, v in MORE.items()}


@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_a_page_keeps_the_strict_policy(as_, lake, name):
    response = as_("owner").get(_paths(lake)[name])
    policy = response["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    markup = _Markup()
    markup.feed(response.content.decode())
    assert markup.faults == []


@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_ids_are_unique_and_the_page_has_one_title(as_, lake, name):
    body = as_("owner").get(_paths(lake)[name]).content.decode()
    markup = _Markup()
    markup.feed(body)
    assert sorted(markup.ids) == sorted(set(markup.ids))
    assert len(re.findall(r"<h1[ >]", body)) == 1
    assert '<main class="main" id="main">' in body


@pytest.mark.parametrize("name", QUERIES)
def test_a_page_asks_as_often_however_much_there_is(as_, lake, name):
    client = as_("owner")
    path = lake.paths()[name]
    client.get(path)
    with CaptureQueriesContext(connection) as few:
        client.get(path)
    for number in range(4):
        SmallLake(f"crm.other_{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(path)
    assert len(many) == len(few)
    assert len(few) <= QUERIES[name]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/tables/?page=0", 404),
        ("/tables/?page=many", 404),
        ("/tables/?health=splendid", 400),
        ("/tables/?export=xlsx", 404),
        ("/jobs/?since=yesterday", 400),
        ("/jobs/?state=asleep", 400),
        ("/conflicts/?kind=imagined", 400),
        ("/conflicts/9999999/", 404),
        ("/jobs/00000000-0000-0000-0000-000000000000/", 404),
        ("/jobs/new/?table=987654", 404),
        ("/jobs/new/?table={table}&kind=conjure", 404),
        ("/tables/{table}/history/?since=soon", 400),
        ("/tables/{table}/history/99/", 404),
        ("/jobs/{job}/?level=shouting", 404),
        ("/tables/{table}/concurrency/?span=7", 404),
        ("/tables/{table}/concurrency/?last=soon", 404),
        ("/tables/{table}/isolation/?level=Chaos", 404),
        ("/tables/{table}/what-if/?level=Chaos", 404),
        ("/tables/{table}/what-if/?row_level=maybe", 404),
        ("/tables/{table}/files/?sort=colour", 404),
        ("/tables/{table}/files/?page=99", 404),
        ("/tables/{table}/preview/?version=99", 404),
        ("/tables/{table}/preview/?version=-1", 404),
        ("/tables/{table}/diff/77...99/", 404),
        ("/tables/{table}/diff/3...1/", 302),
        ("/tables/{table}/diff/?v=1&v=x", 302),
        ("/schedules/new/?table=987654", 404),
        ("/search/?q=%00", 200),
        ("/audit/?act=9", 400),
        ("/audit/?since=soon", 400),
        ("/audit/?table=99999999999999999999999", 200),
        ("/audit/?page=99", 404),
        ("/tokens/00000000-0000-0000-0000-000000000000/revoke/", 405),
    ],
)
def test_bad_input_is_told_and_nothing_breaks(as_, lake, path, status):
    address = path.format(table=lake.table.pk, job=lake.job.pk)
    assert as_("owner").get(address).status_code == status


def test_no_template_holds_what_the_policy_blocks():
    for template in Path(settings.BASE_DIR, "templates").rglob("*.html"):
        text = template.read_text("utf-8")
        assert not re.search(r"\sstyle=|\son[a-z]+=\"|<style|<script(?![^>]*\bsrc=)", text), (
            template
        )
        assert "|safe" not in text, template


def test_the_json_twin_of_a_page_is_there(as_, lake):
    client = as_("owner")
    for name in (
        "overview", "tables", "table", "schema", "history", "version", "diff", "concurrency", "isolation", "eligibility",
        "audit", "what-if", "files", "jobs", "job", "schedules", "conflicts", "conflict", "monitoring", "tokens",
    ):  # fmt: skip
        body = client.get(lake.paths()[name]).content.decode()
        twin = re.search(r'href="([^"]+)" title="This page as JSON"', body)
        assert twin, name
        answer = client.get(twin[1].replace("&amp;", "&"))
        assert answer.status_code == 200, (name, twin[1])
        assert answer["Content-Type"].startswith("application/json")
