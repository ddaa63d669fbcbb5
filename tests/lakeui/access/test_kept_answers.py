"""Answers that a browser or a proxy may cache."""

import pytest

from tests.lakeui.page_client import PageClient
from tests.lakeui.people import person

pytestmark = pytest.mark.django_db


def test_pages_of_a_signed_in_person_are_not_cached():
    client = PageClient()
    client.force_login(person("viewer"))
    for path in ("/", "/tables/", "/jobs/", "/conflicts/", "/no-such-page/"):
        kept_by = client.get(path).headers["Cache-Control"]
        assert {"private", "no-store"} <= set(kept_by.replace(",", " ").split()), path


def test_static_files_may_be_kept_by_everybody():
    client = PageClient()
    client.force_login(person("viewer"))
    page = client.get("/").content.decode()
    path = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert path.startswith("/static/")
    answer = client.get(path)
    answer.close()
    assert answer.status_code == 200
    assert "no-store" not in answer.headers.get("Cache-Control", "")
