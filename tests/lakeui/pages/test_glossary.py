"""The Glossary page matches docs/glossary.md, and pages link their terms."""

import re
from pathlib import Path

import pytest
from django.template import Context, Template, TemplateSyntaxError

from lakeui.catalog.glossary import ANCHORS, TERMS

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| (?!term )(?!--)(.+?) \| (.+?) \|$", re.MULTILINE)


def test_the_page_has_the_terms_of_the_guide():
    guide = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    assert ROW.findall(guide) == [(term.words, term.meaning) for term in TERMS]
    assert len(ANCHORS) == len(TERMS)


def test_every_term_has_a_place_on_the_page(client_for):
    body = client_for("viewer").get("/glossary/").content.decode()
    for anchor in ANCHORS:
        assert f'id="{anchor}"' in body
    assert "<code>WriteSerializable</code>" in body


@pytest.mark.parametrize("page", ["overview", "table", "version", "conflict", "conflicts", "job"])
def test_pages_link_the_terms_that_they_use(client_for, lake, page):
    body = client_for("viewer").get(lake.paths()[page]).content.decode()
    places = re.findall(r'class="term" href="/glossary/#([^"]+)"', body)
    assert places
    assert set(places) <= ANCHORS


def test_a_term_that_the_glossary_lacks_is_no_link():
    with pytest.raises(TemplateSyntaxError):
        Template('{% load terms %}{% term "flux" %}').render(Context())
