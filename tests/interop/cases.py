"""The cases of the sweep."""

from tests.interop.command_cases import COMMAND_CASES
from tests.interop.feature_cases import FEATURE_CASES
from tests.interop.grammar_cases import GRAMMAR_CASES
from tests.interop.odd_cases import ODD_CASES
from tests.interop.sharing_cases import SHARING_CASES
from tests.interop.turns import Case
from tests.interop.value_cases import VALUE_CASES

CASES: tuple[Case, ...] = (
    *FEATURE_CASES,
    *VALUE_CASES,
    *COMMAND_CASES,
    *SHARING_CASES,
    *ODD_CASES,
    *GRAMMAR_CASES,
)
