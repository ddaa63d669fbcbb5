"""The published promises about statements, computed from the checks."""

import re
from typing import Any

import pytest

from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.matrix import NEVER, SAME_FILES, SAME_ROW, conflict_matrix, meet
from engine.conflicts.sketch import Setting
from engine.conflicts.statements import Statement
from tests.shared import needs_shared, shared_lines

PROMISES = shared_lines("reference/conflict_matrix.jsonl")
LEVELS = (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE)
CHANGES, OPTIMIZE, ZORDER = "UPDATE, DELETE, MERGE", "OPTIMIZE", "OPTIMIZE ZORDER BY"
INSERT = "INSERT (blind)"
KINDS = (
    ("INSERT_SELECT", "insert select"),
    ("INSERT", "insert"),
    ("OPTIMIZE ZORDER", "optimize zorder by"),
    ("OPTIMIZE", "optimize"),
    ("REORG TABLE APPLY (PURGE", "reorg purge"),
    ("REORG", "reorg upgrade"),
    ("ALTER", "alter"),
    ("MERGE", "merge"),
    ("DELETE WHERE id IN", "delete by subquery"),
    ("DELETE", "delete"),
    ("UPDATE", "update"),
    ("STREAMING", "stream"),
    ("CREATE", "create"),
)


def _cells(**setting: Any) -> dict[tuple[str, str], str]:
    found = conflict_matrix(Setting(**setting))
    return {(cell.current, cell.winner): cell.verdict for cell in found}


@pytest.mark.parametrize("level", LEVELS)
def test_a_blind_insert_never_loses(level: IsolationLevel):
    for vectors in (True, False):
        cells = _cells(level=level, vectors=vectors)
        assert {cells[INSERT, winner] for _, winner in cells} == {NEVER}


@pytest.mark.parametrize("level", LEVELS)
def test_with_row_level_concurrency(level: IsolationLevel):
    cells = _cells(level=level, vectors=True)
    serializable = level is IsolationLevel.SERIALIZABLE
    assert cells[CHANGES, INSERT] == (SAME_ROW if serializable else NEVER)
    assert cells[CHANGES, CHANGES] == SAME_ROW
    assert cells[OPTIMIZE, INSERT] == NEVER
    assert cells[OPTIMIZE, CHANGES] == cells[CHANGES, OPTIMIZE] == NEVER
    assert cells[OPTIMIZE, OPTIMIZE] == NEVER
    assert cells[ZORDER, CHANGES] == cells[CHANGES, ZORDER] == SAME_FILES


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("vectors", [True, False])
def test_without_row_level_concurrency(level: IsolationLevel, vectors: bool):
    cells = _cells(level=level, vectors=vectors, partitioned=True)
    serializable = level is IsolationLevel.SERIALIZABLE
    assert cells[CHANGES, INSERT] == (SAME_FILES if serializable else NEVER)
    assert cells[CHANGES, CHANGES] == SAME_FILES
    assert cells[OPTIMIZE, CHANGES] == (NEVER if vectors else SAME_FILES)
    assert cells[OPTIMIZE, OPTIMIZE] == (NEVER if vectors else SAME_FILES)


@pytest.mark.parametrize("level", LEVELS)
def test_with_row_tracking_sorting_is_traced_too(level: IsolationLevel):
    cells = _cells(level=level, vectors=True, row_tracking=True)
    assert {cells[ZORDER, CHANGES], cells[CHANGES, ZORDER], cells[ZORDER, ZORDER]} == {NEVER}


def _statements(texts: list[str]) -> tuple[Statement, ...]:
    return tuple(_statement(part) for text in texts for part in text.split("; then "))


def _statement(text: str) -> Statement:
    if "rewrites the inserted rows" in text:
        return Statement("update", 1, None)
    kind = next(name for start, name in KINDS if text.startswith(start))
    row = re.search(r"\bid = (\d)", text)
    date = re.search(r"\b(d\d)\b", text)
    return Statement(kind, int(row[1]) if row else None, date[1] if date else None)


def _setting(promise: dict[str, Any], *, row_tracking: bool = False) -> Setting:
    traced = promise["row_level_concurrency"] or "DVs" in promise["name"].replace("no DVs", "")
    return Setting(
        level=IsolationLevel(promise["isolation"]),
        vectors=traced,
        partitioned="date" in promise["partition_columns"],
        row_tracking=row_tracking,
    )


def _agrees(expected: str | list[str], found: str) -> bool:
    names = expected if isinstance(expected, list) else [expected]
    conflict = found != "ALLOWED"
    return any(
        name == found or name == "CAN_CONFLICT" or (name == "CONFLICT" and conflict)
        for name in names
    )


@needs_shared
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise["id"])
def test_promise_is_kept(promise: dict[str, Any]):
    current = _statements(promise["current"])[0]
    winners = _statements(promise["winner"])
    for tracking in (False, True):
        error = meet(current, winners, _setting(promise, row_tracking=tracking))
        found = type(error).__name__ if error else "ALLOWED"
        expected = promise.get("expected_here", promise["expected"])
        if expected == "SAME_AS_MERGE":
            merge = meet(Statement("merge", 1), winners, _setting(promise, row_tracking=tracking))
            assert found == (type(merge).__name__ if merge else "ALLOWED")
        elif expected == "ALLOWED where row tracking is on, else CONFLICT":
            assert (found == "ALLOWED") is tracking
        else:
            assert _agrees(expected, found), f"{found}: {error}"
