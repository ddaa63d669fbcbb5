"""Early conflicts: a conflict found before the commit is also the outcome of the commit."""

from dataclasses import replace
from itertools import product

import pytest

from engine.conflicts.predict.sample_table import TableSetting
from engine.errors import (
    ConflictError,
    MetadataChangedException,
)
from engine.protocol.properties import IsolationLevel
from engine.transaction.observer import TransactionObserver
from engine.transaction.pending_commit import DEFAULT_LIMITS
from engine.vocabulary import StatementKind
from tests.engine.conflicts.real_pairs import KINDS, LAYOUTS, Pair, Place, lands

SAME_ROW, OTHER_ROW, OTHER_FILE = Place(6), Place(5), Place(1)
RELAXED, STRICT = IsolationLevel.WRITE_SERIALIZABLE, IsolationLevel.SERIALIZABLE


def _build_setting(layout: str, level: IsolationLevel = RELAXED) -> TableSetting:
    return TableSetting(level=level, **LAYOUTS[layout])


IN_EVERY_RUN = {("deletion vectors", RELAXED)}


@pytest.mark.parametrize(
    ("layout", "level"),
    [
        pytest.param(*of, marks=[pytest.mark.stress] * (of not in IN_EVERY_RUN))
        for of in product(LAYOUTS, (RELAXED, STRICT))
    ],
)
def test_an_early_finding_equals_the_result_of_the_commit(layout: str, level: IsolationLevel):
    """With everything staged both agree; with nothing staged no additional conflict is found."""
    for current, winner in product(KINDS, KINDS):
        for place in (SAME_ROW, OTHER_ROW, OTHER_FILE):
            pair = Pair.open(_build_setting(layout, level), (current, SAME_ROW), (winner, place))
            pair.winner_commits()
            bare = pair.find_early(staged=False)
            early = pair.find_early(staged=True)
            late = pair.current_commits()
            claim = f"{current} after {winner} at {place}"
            assert type(early) is type(late), claim
            assert bare is None or type(bare) is type(late), claim


def test_a_change_of_the_table_is_found_while_nothing_is_staged():
    pair = Pair.open(
        _build_setting("plain"), (StatementKind.UPDATE, SAME_ROW), (StatementKind.ALTER, SAME_ROW)
    )
    pair.winner_commits()
    assert isinstance(pair.find_early(staged=False), MetadataChangedException)


def test_files_decide_nothing_while_nothing_is_staged():
    """Perhaps no row matches, so that nothing is lost."""
    pair = Pair.open(
        _build_setting("plain"), (StatementKind.DELETE, SAME_ROW), (StatementKind.DELETE, SAME_ROW)
    )
    pair.winner_commits()
    assert pair.find_early(staged=False) is None
    assert isinstance(pair.find_early(staged=True), ConflictError)


def test_nothing_is_found_without_other_commits_or_in_its_own_commit():
    pair = Pair.open(
        _build_setting("deletion vectors"),
        (StatementKind.DELETE, SAME_ROW),
        (StatementKind.DELETE, OTHER_ROW),
    )
    assert pair.find_early(staged=True) is None
    assert pair.current_commits() is None


class _Ended(TransactionObserver):
    def __init__(self) -> None:
        self.told: list[tuple[str, Exception]] = []

    def failed(self, txn, error):
        self.told.append((txn.operation, error))


def test_an_early_end_is_reported_like_one_at_the_commit():
    pair = Pair.open(
        _build_setting("plain"), (StatementKind.DELETE, SAME_ROW), (StatementKind.DELETE, SAME_ROW)
    )
    observer = _Ended()
    pair.current.txn.observe(observer)
    pair.winner_commits()
    conflict = pair.find_early(staged=True)
    pair.current.txn.end_early("DELETE", conflict)
    assert observer.told == [("DELETE", conflict)]
    assert conflict.conflict.current.operation == "DELETE"


def test_a_comparison_that_was_not_finished_ends_nothing_early():
    """Spark is busy with the write; the commit may have time for the comparison."""
    places = (StatementKind.DELETE, SAME_ROW), (StatementKind.DELETE, OTHER_ROW)
    pair = Pair.open(_build_setting("deletion vectors"), *places)
    pair.winner_commits()
    txn = pair.current.txn
    txn.limits = replace(DEFAULT_LIMITS, row_budget_s=0.0)
    assert pair.find_early(staged=True) is None
    txn.limits = DEFAULT_LIMITS
    assert pair.current_commits() is None


def test_nothing_staged_looks_at_no_commit_behind_one_that_files_may_decide():
    """The commit ends with the first conflict, which is about files."""
    table_change = (StatementKind.ALTER, SAME_ROW)
    pair = Pair.open(
        _build_setting("plain"), (StatementKind.DELETE, SAME_ROW), (StatementKind.DELETE, SAME_ROW)
    )
    pair.winner_commits()
    lands(pair.current.txn.table, *table_change)
    assert pair.find_early(staged=False) is None
    early, late = pair.find_early(staged=True), pair.current_commits()
    assert type(early) is type(late)
    assert not isinstance(late, MetadataChangedException)
