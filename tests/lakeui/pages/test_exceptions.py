"""The page of exceptions; pages, REST and messages share its wording of each rule."""

import re
from pathlib import Path

import pytest

from engine.conflict_facts import Rule
from engine.conflicts.decide.checker import CHECKS, FILE_RULES
from engine.conflicts.explain.exceptions import (
    GUIDES,
    SUBCLASS_MEANINGS,
    TRANSACTIONS_ELSEWHERE,
)
from lakeui.conflicts.reports.messages import parse_report
from tests.lakeui.factories import make_conflict

ADDRESS = "/conflicts/exceptions/"
GUIDE_OF_CODE = {guide.code: guide for guide in GUIDES}


def test_the_page_rest_and_the_guide_say_the_same_of_each_exception(client_for, db):
    body = re.sub(r"\s+", " ", client_for("viewer").get(ADDRESS).content.decode())
    told = client_for("viewer").get(f"/api/v1{ADDRESS}").json()
    docs = Path("docs/semantics.md").read_text("utf-8")
    assert [entry["name"] for entry in told["exceptions"]] == [guide.name for guide in GUIDES]
    for guide, entry in zip(GUIDES, told["exceptions"], strict=True):
        assert f'id="{guide.name}"' in body
        for text in (guide.meaning, *guide.causes, *guide.actions):
            assert text.replace("'", "&#x27;") in body
            assert text in docs
        assert entry["causes"] == list(guide.causes)
        listed = ", ".join(f"`{name}`" for name in guide.databricks) or "none"
        assert f"| `{guide.code}` |" in docs
        assert f"| {listed} |" in docs
    assert told["subclasses"] == {str(name): text for name, text in SUBCLASS_MEANINGS.items()}
    assert TRANSACTIONS_ELSEWHERE in docs
    assert "you may need a newer engine" in body


def test_every_check_raises_an_exception_of_the_guide():
    assert {check.error for check in CHECKS} == {guide.error for guide in GUIDES}
    for guide in GUIDES:
        assert set(guide.open_source) <= set(guide.databricks)
        assert set(guide.raised) <= set(guide.databricks)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.rule)
def test_a_conflict_page_names_the_deciding_rule_and_links_its_exception(client_for, lake, check):
    is_of_files = check.rule in FILE_RULES
    raised = GUIDE_OF_CODE[check.error.code].raised
    subclass = str(raised[0]) if is_of_files else ""
    conflict = make_conflict(
        lake.table, rule=check.rule, exception=check.error.__name__, code=check.error.code,
        subclass=subclass, row_count=None, file_count=int(is_of_files), winning_version=3,
    )  # fmt: skip
    body = re.sub(
        r"\s+", " ", client_for("viewer").get(f"/conflicts/{conflict.pk}/").content.decode()
    )
    assert f'{ADDRESS}#{check.error.__name__}"' in body
    codes = set(re.findall(rf"{check.error.code}\.([A-Z_]+)", body))
    assert codes == ({subclass} if is_of_files else set())
    assert ("It was decided at file level" in body) <= is_of_files
    told = client_for("viewer").get(f"/api/v1/conflicts/{conflict.pk}/").json()
    assert (told["subclass"] or "") == subclass


def test_two_writes_that_created_or_replaced_one_table_are_described_as_such(client_for, lake):
    facts = {"rule": Rule.PROTOCOL_CHANGED, "exception": "ProtocolChangedException", "code": "DELTA_PROTOCOL_CHANGED", "row_count": None}  # fmt: skip
    created = make_conflict(lake.table, subclass="WRITE_TO_EMPTY_DIRECTORY", **facts)
    replaced = make_conflict(lake.table, subclass="", current_operation="CREATE OR REPLACE TABLE", winner_operation="CLONE", **facts)  # fmt: skip
    for conflict, headline in ((created, "created"), (replaced, "replaced")):
        body = client_for("viewer").get(f"/conflicts/{conflict.pk}/").content.decode()
        assert f"Two writes {headline} the same table" in body


def test_an_aborted_transaction_of_databricks_is_explained(client_for, db):
    text = (
        "[MULTI_STATEMENT_TRANSACTION_ROLLBACK_REQUIRED_AFTER_ABORT] The transaction was aborted."
    )
    assert "Roll it back" in parse_report(text).recognized[0]
    body = client_for("viewer").post("/conflicts/explain/", {"text": text}).content.decode()
    assert "Roll it back" in body
