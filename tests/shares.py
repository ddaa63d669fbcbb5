"""The share of many similar cases that `make test` runs; `make stress` runs the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters of one argument: the first, and each `every`-th after it, always."""
    return [
        pytest.param(case, marks=[pytest.mark.stress] * bool(place % every))
        for place, case in enumerate(cases)
    ]
