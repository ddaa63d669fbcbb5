"""A statement has the same result on this engine and on delta-spark."""

import pytest

from tests.interop.grammar_cases import STATEMENTS
from tests.interop.sweep import Sweep
from tests.interop.turns import DELTA, ENGINE

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("name", STATEMENTS)
def test_both_leave_the_same_rows(sweep: Sweep, name: str) -> None:
    mine, theirs = (sweep.stories[f"grammar-{name}-by-{side}"].turns[0] for side in (ENGINE, DELTA))
    assert mine.errors == theirs.errors == []
    assert mine.rows == theirs.rows
