"""The published promises about statements, computed from the checks."""

import re
from typing import Any

import pytest

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.forecast import (
    DEFINITION,
    ForecastSide,
    conflict_matrix,
    first_conflict,
    forecast,
    statement_matrix,
)
from engine.conflicts.predict.sample_table import TableSetting
from engine.conflicts.predict.statements import Statement
from engine.conflicts.reads import SUBQUERY
from engine.vocabulary import StatementKind
from tests.engine.conflicts.case_player import read_cases

PROMISES = read_cases("conflict_matrix.jsonl")
LEVELS = (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE)
CHANGES, OPTIMIZE, ZORDER = "UPDATE, DELETE, MERGE", "OPTIMIZE", "OPTIMIZE ZORDER BY"
INSERT = "INSERT (blind)"
KINDS = (
    ("INSERT_SELECT", StatementKind("insert select")),
    ("INSERT", StatementKind("insert")),
    ("OPTIMIZE ZORDER", StatementKind("optimize zorder by")),
    ("OPTIMIZE", StatementKind("optimize")),
    ("REORG TABLE APPLY (PURGE", StatementKind("reorg purge")),
    ("REORG", StatementKind("reorg upgrade")),
    ("ALTER", StatementKind("alter")),
    ("MERGE", StatementKind("merge")),
    ("DELETE", StatementKind("delete")),
    ("UPDATE", StatementKind("update")),
    ("STREAMING", StatementKind("stream")),
    ("CREATE", StatementKind("create")),
)


def _cells(**setting: Any) -> dict[tuple[str, str], str]:
    cells = conflict_matrix(TableSetting(**setting))
    return {(cell.current, cell.winner): cell.verdict for cell in cells}


@pytest.mark.parametrize("level", LEVELS)
def test_a_blind_insert_is_never_aborted(level: IsolationLevel):
    for vectors in (True, False):
        cells = _cells(level=level, vectors=vectors)
        assert {cells[INSERT, winner] for _, winner in cells} == {Verdict.NEVER}


@pytest.mark.parametrize("level", LEVELS)
def test_with_row_level_concurrency(level: IsolationLevel):
    cells = _cells(level=level, vectors=True)
    serializable = level is IsolationLevel.SERIALIZABLE
    assert cells[CHANGES, INSERT] == (Verdict.SAME_ROW if serializable else Verdict.NEVER)
    assert cells[CHANGES, CHANGES] == Verdict.SAME_ROW
    assert cells[OPTIMIZE, INSERT] == Verdict.NEVER
    assert cells[OPTIMIZE, CHANGES] == cells[CHANGES, OPTIMIZE] == Verdict.NEVER
    assert cells[OPTIMIZE, OPTIMIZE] == Verdict.NEVER
    assert cells[ZORDER, CHANGES] == cells[CHANGES, ZORDER] == Verdict.SAME_FILES


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("vectors", [True, False])
def test_without_row_level_concurrency(level: IsolationLevel, vectors: bool):
    cells = _cells(level=level, vectors=vectors, partitioned=True)
    serializable = level is IsolationLevel.SERIALIZABLE
    assert cells[CHANGES, INSERT] == (Verdict.SAME_FILES if serializable else Verdict.NEVER)
    assert cells[CHANGES, CHANGES] == Verdict.SAME_FILES
    assert cells[OPTIMIZE, CHANGES] == (Verdict.NEVER if vectors else Verdict.SAME_FILES)
    assert cells[OPTIMIZE, OPTIMIZE] == (Verdict.NEVER if vectors else Verdict.SAME_FILES)


@pytest.mark.parametrize("level", LEVELS)
def test_row_tracking_traces_rows_through_a_sort(level: IsolationLevel):
    cells = _cells(level=level, vectors=True, row_tracking=True)
    assert {cells[ZORDER, CHANGES], cells[CHANGES, ZORDER], cells[ZORDER, ZORDER]} == {
        Verdict.NEVER
    }


@pytest.mark.parametrize("level", LEVELS)
def test_optimize_of_a_clustered_table_needs_row_tracking_to_be_followed(level: IsolationLevel):
    cells = _cells(level=level, vectors=True, clustered=True)
    assert cells[CHANGES, CHANGES] == Verdict.SAME_ROW
    assert cells[OPTIMIZE, INSERT] == cells[INSERT, OPTIMIZE] == Verdict.NEVER
    for pair in ((OPTIMIZE, CHANGES), (CHANGES, OPTIMIZE), (OPTIMIZE, OPTIMIZE)):
        assert cells[pair] == Verdict.SAME_FILES
    tracked = _cells(level=level, vectors=True, clustered=True, row_tracking=True)
    for pair in ((OPTIMIZE, CHANGES), (CHANGES, OPTIMIZE), (OPTIMIZE, OPTIMIZE)):
        assert tracked[pair] == Verdict.NEVER


@pytest.mark.parametrize("tracking", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_a_clustered_table_without_deletion_vectors_is_decided_by_files(
    level: IsolationLevel, tracking: bool
):
    cells = _cells(level=level, vectors=False, clustered=True, row_tracking=tracking)
    for pair in ((CHANGES, CHANGES), (OPTIMIZE, CHANGES), (CHANGES, OPTIMIZE)):
        assert cells[pair] == Verdict.SAME_FILES


def _statements(texts: list[str]) -> tuple[Statement, ...]:
    return tuple(_statement(part) for text in texts for part in text.split("; then "))


def _statement(text: str) -> Statement:
    if "rewrites the inserted rows" in text:
        return Statement(StatementKind.UPDATE, 1)
    if text.startswith("DELETE WHERE id IN (SELECT"):
        return Statement(StatementKind.DELETE, 1, opens_all=True, obstacle=SUBQUERY)
    kind = next(name for start, name in KINDS if text.startswith(start))
    row = re.search(r"\bid = (\d)", text)
    date = re.search(r"\b(d\d)\b", text)
    shared = "one checkpoint" if kind is StatementKind.STREAM else None
    return Statement(
        kind, int(row[1]) if row else None, date[1] if date else None, application=shared
    )


def _build_setting(promise: dict[str, Any], *, row_tracking: bool = False) -> TableSetting:
    traced = promise["row_level_concurrency"] or "DVs" in promise["name"].replace("no DVs", "")
    return TableSetting(
        level=IsolationLevel(promise["isolation"]),
        vectors=traced,
        partitioned="date" in promise["partition_columns"],
        row_tracking=row_tracking,
    )


def _agrees(expected: str | list[str], actual: str) -> bool:
    names = expected if isinstance(expected, list) else [expected]
    conflict = actual != "ALLOWED"
    return any(
        name == actual or name == "CAN_CONFLICT" or (name == "CONFLICT" and conflict)
        for name in names
    )


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise["id"])
def test_a_pair_conflicts_as_the_published_matrix_promises(promise: dict[str, Any]):
    current = _statements(promise["current"])[0]
    winners = _statements(promise["winner"])
    for tracking in (False, True):
        error = first_conflict(current, winners, _build_setting(promise, row_tracking=tracking))
        actual = type(error).__name__ if error else "ALLOWED"
        expected = promise.get("expected_here", promise["expected"])
        if expected == "SAME_AS_MERGE":
            merge = first_conflict(
                Statement(StatementKind.MERGE, 1),
                winners,
                _build_setting(promise, row_tracking=tracking),
            )
            assert actual == (type(merge).__name__ if merge else "ALLOWED")
        elif expected == "ALLOWED where row tracking is on, else CONFLICT":
            assert (actual == "ALLOWED") is tracking
        else:
            assert _agrees(expected, actual), f"{actual}: {error}"


@pytest.mark.parametrize("clustered", [True, False])
def test_a_change_of_the_table_conflicts_with_everything_except_clustering_that_the_protocol_allows(
    clustered: bool,
):
    setting = TableSetting(level=LEVELS[1], vectors=True, clustered=clustered)
    cells = [cell for cell in statement_matrix(setting) if cell.winner == DEFINITION]
    assert {cell.verdict for cell in cells} == {Verdict.ALWAYS}
    names = ("MetadataChangedException", "ProtocolChangedException")
    assert {cell.exceptions for cell in cells} == {names}


def test_on_a_table_with_an_identity_column_each_statement_has_its_own_verdict():
    setting = TableSetting(level=LEVELS[1], vectors=True, identity=True)
    cells = {(cell.current, cell.winner): cell for cell in statement_matrix(setting)}
    kind = StatementKind
    for winner in (kind.UPDATE, kind.DELETE, kind.OPTIMIZE):
        assert cells[kind.INSERT, winner].verdict is Verdict.NEVER
    for current in (kind.INSERT, kind.UPDATE, kind.MERGE, kind.OPTIMIZE, kind.ZORDER):
        for winner in (kind.INSERT, kind.MERGE):
            cell = cells[current, winner]
            assert (cell.verdict, cell.exceptions) == (
                Verdict.ALWAYS,
                ("MetadataChangedException",),
            )
    assert cells[kind.DELETE, kind.UPDATE].verdict is Verdict.SAME_FILES


def test_of_two_statements_that_replace_a_table_one_fails_by_the_protocol():
    setting = TableSetting(level=LEVELS[1], vectors=True)
    replaces = ForecastSide(kind=StatementKind.REPLACE)
    told = forecast(
        setting, replaces, ForecastSide(kind=StatementKind.REPLACE, changes_metadata=True)
    )
    assert (told.verdict, told.exceptions) == (Verdict.ALWAYS, ("ProtocolChangedException",))
    told = forecast(setting, ForecastSide(kind=StatementKind.DELETE), replaces)
    assert told.exceptions[:1] == ("MetadataChangedException",)
