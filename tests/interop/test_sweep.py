import pytest

from tests.interop.cases import CASES
from tests.interop.sweep import Sweep
from tests.interop.turns import DELTA, ENGINE, Case

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@EACH
def test_both_sides_read_the_same_rows_after_every_turn(sweep: Sweep, case: Case) -> None:
    assert sweep.stories[case.name].faults() == []


@EACH
def test_every_statement_is_done_or_refused_as_expected(sweep: Sweep, case: Case) -> None:
    story = sweep.stories[case.name]
    assert {side: story.find_unexpected(side) for side in (ENGINE, DELTA)} == {
        ENGINE: [],
        DELTA: [],
    }
