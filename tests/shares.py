"""The share of many similar cases that `make test` runs; `make stress` runs the others."""

from collections.abc import Iterable
from typing import Any

import pytest

_LEFT_OUT = "not stress"


class Run:
    """What this run was asked for; `tests.conftest` says it before anything is collected."""

    is_hunt = True

    @classmethod
    def select(cls, marks: str) -> None:
        """By pytest's -m."""
        cls.is_hunt = _LEFT_OUT not in marks


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters of one argument: the first, and each `every`-th after it, always."""
    return [
        pytest.param(case, marks=[pytest.mark.stress] * bool(place % every))
        for place, case in enumerate(cases)
    ]
