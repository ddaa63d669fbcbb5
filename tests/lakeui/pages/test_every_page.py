"""Rules for every page: policy, markup, the number of queries, bad input."""

import csv
import html
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse
from django.utils import timezone

from lakeui.catalog.models import Preview, Table
from lakeui.jobs.models import Schedule
from lakeui.jobs.uploads import keep_upload
from lakeui.pages.urls import urlpatterns
from tests.lakeui.factories import make_conflict
from tests.lakeui.pages.conftest import PAGES, SmallLake

NAMES = [name for name in PAGES if name != "job log"]  # a part of the page of a job
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
    "no such job": "/jobs/?state=cancelled",
    "no such conflict": "/conflicts/?user=nobody",
    "no such pair": "/conflicts/repeated/?assignee=nobody",
    "no such schedule": "/schedules/?owner=nobody",
    "no such entry": "/audit/?user=nobody",
    "no such version": "/tables/{table}/history/?user=nobody",
    "no such file": "/tables/{table}/files/?partition=nowhere",
    "no such column": "/tables/{table}/schema/?q=nowhere",
    "error": "/tables/?health=splendid",
}
QUERIES = {
    "overview": 64, "attention": 31, "tables": 12, "table": 25, "schema": 17, "history": 21, "version": 26, "diff": 22, "concurrency": 31,
    "isolation": 23, "eligibility": 21, "what-if": 19, "files": 18, "jobs": 10, "job": 25, "schedules": 8,
    "lanes": 18, "monitoring": 44, "conflicts": 12, "conflict": 24, "explain": 7, "search": 15, "audit": 14, "tokens": 10, "sessions": 14, "preview": 18,
}  # fmt: skip

QUERIES_OF_A_PAGE = 25  # where the table above does not say
OF_THE_FRAME = 1  # how many workers are there
TWIN_QUERIES = {"overview": 54, "attention": 26, "monitoring": 38}


class _Markup(HTMLParser):
    """A parser that collects violations of the policy, broken paragraphs, skipped levels, and ids."""

    BLOCKS = frozenset(["details", "div", "dl", "form", "ol", "p", "pre", "section", "table", "ul"])

    def __init__(self):
        super().__init__()
        self.faults, self.ids = [], []
        self._in_paragraph, self._level = False, 0

    def handle_endtag(self, tag):
        self._in_paragraph = self._in_paragraph and tag != "p"

    def _note_level(self, tag):
        if re.fullmatch("h[1-6]", tag):
            if int(tag[1]) > self._level + 1:
                self.faults.append(("skipped a level", tag))
            self._level = int(tag[1])

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if self._in_paragraph and tag in self.BLOCKS:
            self.faults.append(("p", tag, given))
        self._in_paragraph = tag == "p" or (self._in_paragraph and tag not in self.BLOCKS)
        self._note_level(tag)
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


def test_a_page_keeps_the_strict_policy_and_has_unique_ids_and_one_title(client_for, lake):
    client, paths = client_for("owner"), _paths(lake)
    for name in (*NAMES, *MORE):
        response = client.get(paths[name])
        policy = response["Content-Security-Policy"]
        assert "script-src 'self'" in policy, name
        assert "unsafe" not in policy, name
        body = response.content.decode()
        markup = _Markup()
        markup.feed(body)
        assert markup.faults == [], name
        assert sorted(markup.ids) == sorted(set(markup.ids)), name
        assert len(re.findall(r"<h1[ >]", body)) == 1, name
        assert '<main class="main" id="main">' in body, name


@pytest.mark.parametrize("state", [{"version": None}, {"mirror_error_code": "LAKE_STORAGE_ERROR"}])
def test_a_notice_of_a_table_holds_its_button(client_for, lake, state):
    Table.objects.update(**state)
    markup = _Markup()
    markup.feed(_body(client_for("owner"), lake, "table"))
    assert markup.faults == []


def _count_queries(client, addresses):
    """Count the queries of each address, after its first request has filled the caches."""
    counted = {}
    for name, address in addresses.items():
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        counted[name] = len(queries)
    return counted


def test_a_page_takes_the_same_queries_for_any_number_of_rows(client_for, lake):
    client, paths = client_for("owner"), {name: lake.paths()[name] for name in NAMES}
    few = _count_queries(client, paths)
    for number in range(4):
        SmallLake(f"crm.other_{number}")
    assert _count_queries(client, paths) == few
    most = {name: QUERIES.get(name, QUERIES_OF_A_PAGE) + OF_THE_FRAME for name in few}
    assert {name: asked for name, asked in few.items() if asked > most[name]} == {}


# forms, and parts of other pages: they name no twin of their own
WITHOUT_TWIN = {"row diff", "preview", "explain"}


def test_its_json_twin_takes_the_same_queries_for_any_number_of_rows(client_for, lake):
    client, twins = client_for("owner"), {}
    for name in NAMES:
        twin = re.search(r'href="([^"]+)" title="This page as JSON"', _body(client, lake, name))
        assert (twin is not None) or name in WITHOUT_TWIN, name
        if twin is not None:
            twins[name] = html.unescape(twin[1])
    few = _count_queries(client, twins)
    for number in range(4):
        SmallLake(f"crm.other_{number}")
        make_conflict(lake.table, job=lake.job, winning_version=3, facts={"row_level": "why"})
    assert _count_queries(client, twins) == few
    assert {name: n for name, n in few.items() if n > TWIN_QUERIES.get(name, 25)} == {}


def _body(client, lake, name):
    return client.get(lake.paths()[name]).content.decode()


STATUSES = {
    "/tables/?page=0": 404,
    "/tables/?page=many": 404,
    "/tables/?health=splendid": 400,
    "/tables/?export=xlsx": 404,
    "/jobs/?since=yesterday": 400,
    "/jobs/?state=asleep": 400,
    "/conflicts/?kind=imagined": 400,
    "/conflicts/9999999/": 404,
    "/jobs/00000000-0000-0000-0000-000000000000/": 404,
    "/jobs/new/?table=987654": 404,
    "/jobs/new/?table={table}&kind=conjure": 404,
    "/tables/{table}/history/?since=soon": 400,
    "/tables/{table}/history/99/": 404,
    "/jobs/{job}/?level=shouting": 404,
    "/tables/{table}/concurrency/?span=7": 404,
    "/tables/{table}/concurrency/?last=soon": 404,
    "/tables/{table}/isolation/?level=Chaos": 404,
    "/tables/{table}/what-if/?level=Chaos": 404,
    "/tables/{table}/what-if/?row_level=maybe": 404,
    "/tables/{table}/files/?sort=color": 404,
    "/tables/{table}/files/?page=99": 404,
    "/tables/{table}/preview/?version=99": 404,
    "/tables/{table}/preview/?version=-1": 404,
    "/tables/{table}/diff/77...99/": 404,
    "/tables/{table}/diff/1...99/rows/": 404,
    "/tables/{table}/diff/1...1/rows/": 404,
    "/tables/{table}/diff/3...1/rows/": 302,
    "/tables/{table}/diff/1...3/rows/?where=%00": 400,
    "/tables/{table}/diff/3...1/": 302,
    "/tables/{table}/diff/?v=1&v=x": 302,
    "/schedules/new/?table=987654": 404,
    "/search/?q=%00": 400,
    "/audit/?act=9": 400,
    "/audit/?since=soon": 400,
    "/audit/?table=99999999999999999999999": 200,
    "/audit/?page=99": 404,
    "/tokens/00000000-0000-0000-0000-000000000000/revoke/": 405,
    "/sessions/00000000-0000-0000-0000-000000000000/end/": 405,
}


def test_bad_input_is_reported_and_nothing_breaks(client_for, lake):
    client, told = client_for("owner"), {}
    for path in STATUSES:
        address = path.format(table=lake.table.pk, job=lake.job.pk)
        told[path] = client.get(address).status_code
    assert told == STATUSES


def test_no_template_holds_markup_that_the_policy_blocks():
    for template in Path(settings.BASE_DIR, "templates").rglob("*.html"):
        text = template.read_text("utf-8")
        assert not re.search(r"\sstyle=|\son[a-z]+=\"|<style|<script(?![^>]*\bsrc=)", text), (
            template
        )
        assert "|safe" not in text, template


NOT_PAGES = frozenset(
    [
        "conflict-rerun",
        "conflict-repeated-change",
        "conflict-trials",
        "table-refresh",
        "table-commits",  # of a managed table: tests/lakeui/managed/test_attempts.py
        "table-landed",
        "table-sync",
        "attention-mute",
        "attention-unmute",
        "alert-channel-new",
        "alert-channel-change",
        "alert-channel-act",
        "alert-rule-new",
        "alert-rule-change",
        "alert-rule-remove",
        "table-discover-act",
        "table-diff-choose",
        "jobs-stream",
        "job-stream",
        "job-log",
        "cancel-read",
        "job-cancel",
        "job-rerun",
        "conflict-rows",
        "key-remove",
        "schedule-change",
        "token-revoke",
        "session-end",
        "sign-on",
        "sign-on-callback",
        "preferences",
        "login",
        "logout",
    ]
)
"""Addresses that act, stream, redirect, or need nobody signed in."""
LISTS = {
    "table-list": "/tables/?q=sales", "table-history": "/tables/{table}/history/?operation=MERGE",
    "table-files": "/tables/{table}/files/", "table-schema": "/tables/{table}/schema/",
    "table-diff": "/tables/{table}/diff/1...3/", "job-list": "/jobs/?kind=optimize",
    "conflict-list": "/conflicts/?kind=aborted", "schedule-list": "/schedules/", "audit": "/audit/",
}  # fmt: skip
_GIVEN = {"pk": "table", "older": 1, "newer": 3, "version": 3}


def _address(lake, route):
    """Return a page's address in the small lake."""
    keys = {"job": lake.job.pk, "conflict": lake.conflict.pk}
    if route.name == "table-upload-preview":
        file = SimpleUploadedFile("rows.csv", b"id\n1\n")
        keys[route.name] = keep_upload(file, User.objects.get(username="owner")).pk
    given = {
        name: keys.get(route.name, lake.table.pk) if name == "pk" else _GIVEN[name]
        for name in route.pattern.converters
    }
    more = {"search": "?q=e", "job-new": f"?table={lake.table.pk}&sql=OPTIMIZE+sales.orders"}
    return reverse(route.name, kwargs=given) + more.get(route.name, "")


FORMS = {"schedule-edit", "table-unregister", "table-upload-preview"}


def test_every_page_is_among_those_that_are_tested():
    keys = {"table": 1, "job": uuid4(), "conflict": 1}
    paths = [path.format(**keys) for path in (*PAGES.values(), *MORE.values())]
    tested = {resolve(urlsplit(path).path).url_name for path in paths}
    assert {route.name for route in urlpatterns} - tested <= NOT_PAGES | FORMS


@pytest.mark.parametrize(
    "route", [r for r in urlpatterns if r.name not in NOT_PAGES], ids=lambda r: r.name
)
def test_every_page_has_a_json_twin_or_says_how_to_do_the_same_over_rest(client_for, lake, route):
    client = client_for("owner")
    Preview.objects.create(table=lake.table, version=3, asked_at=timezone.now())
    Preview.objects.create(table=lake.table, older_version=1, version=3, asked_at=timezone.now())
    people = {"owner": User.objects.get(username="owner"), "table": lake.table}
    Schedule.objects.create(pk=lake.table.pk, name="n", cron="0 3 * * *", kind="optimize", **people)
    body = client.get(_address(lake, route)).content.decode()
    copied = re.search(r'data-copy="curl ([^"]+)"', body)
    assert copied, "the page shows no twin: set context['twin'] and include frame/_twin.html"
    command = shlex.split(html.unescape(copied[1]))
    twin = re.search(r'href="([^"]+)" title="This page as JSON"', body)
    if twin is None:  # a form: what it does is what the command does
        assert {"-d", "-F"} & set(command)
        assert resolve(urlsplit(command[-1]).path).func.view_class.post
        return
    address = html.unescape(twin[1])
    assert command[-1] == f"http://testserver{address}"
    answer = client.get(address)
    assert answer.status_code == 200, address
    assert answer["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.parametrize("name", LISTS)
def test_every_list_exports_the_filtered_rows_without_a_cap(client_for, lake, name, file_format):
    client, path = client_for("owner"), LISTS[name].format(table=lake.table.pk)
    assert f"export={file_format}" in client.get(path).content.decode()
    together = "&" if "?" in path else "?"
    answer = client.get(f"{path}{together}export={file_format}")
    assert answer.status_code == 200
    assert answer.streaming
    text = b"".join(answer.streaming_content).decode()
    rows = (
        len(json.loads(text))
        if file_format == "json"
        else len(list(csv.reader(text.splitlines()))) - 1
    )
    assert rows == _rows_of(client, name, path)


def _rows_of(client, name, path):
    """Return the row count that a paged list states, or else the number of rows its export must have."""
    body = client.get(path).content.decode()
    shown = re.search(r"\d+ to \d+ of (\d+)", body)
    if shown:
        return int(shown[1])
    return {"table-schema": 10, "table-diff": 2, "table-files": 1, "schedule-list": 0}.get(name, -1)
