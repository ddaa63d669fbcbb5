"""Rows of a table on a page: asked of a worker, waited for, shown with their age."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import Preview
from tests.lakeui.factories import make_commit

HTMX = {"HX-Request": "true"}


@pytest.fixture
def address(lake):
    return f"/tables/{lake.table.pk}/preview/"


def _previewed(lake, **fields):
    now = timezone.now()
    return Preview.objects.create(**{"table": lake.table, "version": 3, "asked_at": now} | fields)


def test_asking_leaves_a_request_and_the_page_waits(as_, lake, address):
    client = as_("viewer")
    response = client.post(address, {"version": "2"}, follow=True)
    assert response.redirect_chain == [(f"{address}?version=2", 302)]
    assert "A worker is reading" in response.text
    assert Preview.objects.get().version == 2
    assert client.get(f"{address}?version=2", headers=HTMX).status_code == 200


def test_rows_show_with_their_age_and_polling_ends(as_, lake, address):
    columns = [{"name": "id", "type": "long"}, {"name": "<b>", "type": "string"}]
    _previewed(lake, read_at=timezone.now(), columns=columns, rows=[["41", None]])
    response = as_("viewer").get(address, headers=HTMX)
    assert response.status_code == 286
    assert "&lt;b&gt;" in response.text
    assert "41" in response.text
    assert "null" in response.text
    assert "1 row, read" in response.text
    assert '<td class="mono num">41</td>' in response.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"asked_at": timezone.now() - timedelta(minutes=2)}, "No worker answered"),
        ({"read_at": timezone.now(), "error_code": "LAKE_X", "error_message": "Why."}, "LAKE_X"),
        ({"read_at": timezone.now()}, "This version holds none"),
    ],
)
def test_each_way_it_can_end_is_told(as_, lake, address, fields, said):
    _previewed(lake, **fields)
    response = as_("viewer").get(address)
    assert said in response.text
    assert "hx-get" not in response.text.split('id="preview"')[1][:200]


def test_a_stranger_can_ask_for_nothing(as_, lake, address):
    assert as_("stranger").post(address, {"version": "3"}).status_code == 404
    assert not Preview.objects.exists()


def test_rows_that_deletion_vectors_hide_are_counted(as_, lake, address):
    _previewed(
        lake, read_at=timezone.now(), columns=[{"name": "id", "type": "long"}], rows=[["41"]],
        row_count=900, file_count=3, marked_rows=7,
    )  # fmt: skip
    body = as_("viewer").get(address).text
    assert "of 900 in 3 files" in body
    assert "7 rows that deletion vectors hide are left out" in body


def test_the_rows_that_were_read_can_be_taken_away(as_, lake, address):
    columns = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
    _previewed(lake, read_at=timezone.now(), columns=columns, rows=[["41", "=1+1"], ["42", None]])
    answer = as_("viewer").get(f"{address}?version=3&export=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines == ["id,note", "41,'=1+1", "42,"]


def test_a_vacuum_after_a_version_is_told_before_it_is_read(as_, lake, address):
    make_commit(lake.table, 4, "VACUUM END")
    lake.table.version = 4
    lake.table.save()
    assert "A VACUUM ran later" in as_("viewer").get(f"{address}?version=2").text
    assert "A VACUUM ran later" not in as_("viewer").get(f"{address}?version=4").text
