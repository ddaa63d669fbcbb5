"""104 cases asserted by the tests of other engines, at both isolation levels."""

import re
from typing import Any

import pytest

from engine.conflict_facts import RemedyKind, Subclass
from engine.conflicts.decide.checker import FILE_RULES
from engine.conflicts.explain.exceptions import GUIDES
from engine.errors import ConflictError
from tests.engine.conflicts.case_player import list_expected, log_of, play, read_cases
from tests.engine.conflicts.effects import check_effect

CASES = read_cases("conflict_cases.jsonl")
LEVELS = ("Serializable", "WriteSerializable")
ROWS = [pytest.param(case, level, id=f"{case['id']}-{level}") for case in CASES for level in LEVELS]
LOSERS = [row for row in ROWS if {"ALLOWED", "ERROR"}.isdisjoint(list_expected(*row.values))]
GUIDE_OF_CODE = {guide.code: guide for guide in GUIDES}


def test_no_case_was_lost():
    assert len({case["id"] for case in CASES}) == 104


@pytest.mark.parametrize(("case", "level"), ROWS)
def test_case_ends_as_the_contract_says(case: dict[str, Any], level: str):
    played = play(case, level)
    expected = list_expected(case, level)
    if expected == ["ERROR"]:
        assert played.error is not None
    else:
        assert played.name in expected, str(played.error)
    if played.error is None and "effect" in case:
        check_effect(played, case["effect"])


@pytest.mark.parametrize(("case", "level"), ROWS)
def test_loser_leaves_no_trace_and_winner_records_its_action(case: dict[str, Any], level: str):
    played = play(case, level)
    if played.error is not None or not case["current"]["actions"]:
        assert log_of(played.table) == played.log_before
        return
    assert played.committed_version == played.winning_version + 1
    assert played.commit is not None
    info = played.commit.commit_info
    assert info is not None
    assert info.read_version is not None
    assert info.isolation_level in {level, "SnapshotIsolation"}
    assert info.is_blind_append is not None


@pytest.mark.parametrize(("case", "level"), LOSERS)
def test_every_conflict_explains_itself(case: dict[str, Any], level: str):
    error = play(case, level).error
    assert isinstance(error, ConflictError)
    facts = error.conflict
    assert error.sqlstate == "2D521"
    assert facts.table in str(error)
    assert "Nothing was written." in str(error)
    assert facts.winner.version is not None
    assert facts.remedies
    assert all(remedy.action and remedy.reason for remedy in facts.remedies)
    assert not any(re.search(r"\bSerializable", remedy.action) for remedy in facts.remedies)
    raised = GUIDE_OF_CODE[error.code].raised
    assert (
        facts.subclass in raised if facts.rule in FILE_RULES else facts.subclass in (None, *raised)
    )
    kinds = {remedy.kind for remedy in facts.remedies}
    if facts.subclass in (Subclass.WHOLE_TABLE_READ, Subclass.EMPTY_READ_PREDICATES):
        assert not kinds & {RemedyKind.LAYOUT, RemedyKind.PARTITION_PREDICATE}
    assert error.facts()["conflict"]["rule"] == facts.rule
