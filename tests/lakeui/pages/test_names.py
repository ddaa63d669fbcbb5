"""An address's view, template and JSON twin share the name of its subject."""

import re
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.urls import resolve

from engine.commands.sql import parse_statement
from engine.errors import StatementError
from lakeui.pages.table_head import TABS
from tests.lakeui.pages.conftest import PAGES

OF_A_LIST = {"jobs/job", "jobs/schedule"}
"""Templates of one row whose views stand beside those of their list."""
ADDRESSES = {
    "/": "overview/overview",
    "/attention/": "overview/attention",
    "/search/": "overview/search",
    "/glossary/": "overview/glossary",
    "/schedules/": "jobs/schedules",
    "/schedules/runs/": "jobs/run_grid",
    "/audit/": "access/audit",
    "/tokens/": "access/tokens",
    "/sessions/": "access/sessions",
    "/tables/{table}/": "tables/summary",
    "/tables/{table}/history/3/": "tables/version",
    "/jobs/{job}/": "jobs/jobs",
    "/conflicts/{conflict}/": "conflicts/conflict",
    "/tables/{table}/diff/1...3/": "tables/diff",
    "/tables/{table}/diff/1...3/rows/": "tables/row_diff",
    "/conflicts/": "conflicts/conflicts",
    "/tables/": "tables/tables",
    "/jobs/": "jobs/jobs",
    "/monitoring/": "monitoring/monitoring",
}
"""Addresses that are not `subject/…/name/`, by the name that all three go by."""
PARTS = {"job log"}


def _page_name(address: str) -> str:
    path = urlsplit(address).path
    if path in ADDRESSES:
        return ADDRESSES[path]
    steps = [step for step in path.split("/") if step]
    return f"{steps[0]}/{steps[-1].replace('-', '_')}"


def _subject(path: str) -> str:
    """Return the subject of the module that answers an address: `lakeui.pages.SUBJECT[.NAME]`."""
    view = resolve(path).func
    return getattr(view, "cls", getattr(view, "view_class", view)).__module__.split(".")[2]


@pytest.mark.parametrize("page", sorted({*PAGES} - PARTS))
def test_an_address_its_view_its_template_and_its_json_share_a_subject(client_for, lake, page):
    name, path = _page_name(PAGES[page]), lake.paths()[page]
    response = client_for("owner").get(path)
    shown = response.templates[0].name.removesuffix(".html")
    subject = name.split("/")[0]
    assert _subject(urlsplit(path).path) == subject
    assert shown == name or shown in OF_A_LIST
    if twin := response.context.get("twin"):
        assert _subject(urlsplit(twin).path) == subject


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM t", "SHOW COLUMNS IN t", "SHOW PARTITIONS t", "DESCRIBE HISTORY t"]
)
def test_a_statement_that_only_reads_names_a_tab_of_the_table(statement):
    with pytest.raises(StatementError) as refused:
        parse_statement(statement)
    (label,) = re.findall(r"the ([A-Z]\w+) page of the table", str(refused.value))
    assert label in {label for _, label, _ in TABS}


@pytest.mark.parametrize("library", ["lake", "runs", "shapes", "terms"])
def test_every_tag_and_filter_has_a_template_that_uses_it(library):
    texts = "\n".join(path.read_text("utf-8") for path in Path("templates").rglob("*.html"))
    register = import_module(f"lakeui.pages.templatetags.{library}").register
    unused = [
        *(name for name in register.filters if not re.search(rf"\|{name}\b", texts)),
        *(name for name in register.tags if not re.search(rf"{{%\s+{name}\b", texts)),
    ]
    assert not unused
