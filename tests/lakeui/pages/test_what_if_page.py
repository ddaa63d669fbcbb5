"""A table's history under another setting: the sums, the list, its filters and its export."""

import json

import pytest

from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.factories import make_commit, make_conflict, make_table


@pytest.fixture
def page(db):
    table = make_table(version=2, row_level_eligible=False)
    for version in range(3):
        make_commit(table, version, "WRITE", committed_at=None)
    replayable(table)
    table.commits.filter(version=2).update(operation="DELETE", user_name="gdpr-eraser")
    make_conflict(table, winning_version=2, rule="metadata_changed")
    return f"/tables/{table.pk}/what-if/"


def test_the_sums_come_first_and_name_the_change(client_for, page):
    body = client_for("viewer").get(page, {"level": "Serializable"}).content.decode()
    assert "1 more write would be aborted" in body
    assert "Committed writes that would be aborted" in body
    as_it_is = client_for("viewer").get(page).content.decode()
    assert "1 write aborted as the table is" in as_it_is


def test_the_list_is_narrowed_by_address(client_for, page):
    query = {"level": "Serializable", "verdict": "changes"}
    body = client_for("viewer").get(page, query).content.decode()
    assert "gdpr-eraser" in body
    assert "price-fixer" not in body
    aborted = client_for("viewer").get(page, query | {"verdict": "", "outcome": "aborted"})
    assert "price-fixer" in aborted.content.decode()
    assert 'nowrap">gdpr-eraser' not in aborted.content.decode()
    none = client_for("viewer").get(page, query | {"operation": "MERGE"}).content.decode()
    assert "Nothing matches" in none


@pytest.mark.parametrize(
    "query", ["verdict=maybe", "outcome=gone", "page=9", "span=7", "export=xlsx"]
)
def test_an_absent_setting_is_not_found(client_for, page, query):
    assert client_for("viewer").get(f"{page}?{query}").status_code == 404


def test_the_export_holds_every_overlap_that_passes_the_filter(client_for, page):
    query = {"level": "Serializable", "verdict": "conflict", "export": "json"}
    response = client_for("viewer").get(page, query)
    rows = json.loads(b"".join(response.streaming_content))
    assert [(row["version"], row["outcome"], row["would_be"]) for row in rows] == [
        (2, "committed", "conflict"),
        (None, "aborted", "conflict"),
    ]


def test_all_four_settings_are_side_by_side_over_rest_too(client_for, page):
    body = client_for("viewer").get(f"/api/v1{page}", {"level": "Serializable"}).json()
    assert len(body["totals"]) == 4
    assert [(row["version"], row["outcome"]) for row in body["overlaps"]] == [
        (2, "committed"),
        (None, "aborted"),
    ]
    assert body["pairs"][0]["then"] == 1
