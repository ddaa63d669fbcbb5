"""The share of many similar cases that `make test` runs; `make stress` runs all of them."""

from collections.abc import Iterable
from itertools import cycle, product
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")
Other = TypeVar("Other")
_LEFT_OUT = "not stress"


class Run:
    """The options of this run, which `tests.conftest` sets before tests are collected."""

    is_hunt = True

    @classmethod
    def select(cls, marks: str) -> None:
        """Set the expression of pytest's -m."""
        cls.is_hunt = _LEFT_OUT not in marks


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters of one argument: the first, and each `every`-th after it, always."""
    return [
        pytest.param(case, marks=[pytest.mark.stress] * bool(place % every))
        for place, case in enumerate(cases)
    ]


def share(every: int, cases: Iterable[Case]) -> list[Case]:
    """Return the cases of a loop inside a test: the first and each `every`-th after it, or all."""
    return list(cases)[:: 1 if Run.is_hunt else every]


def pairs(first: Iterable[Case], second: Iterable[Other]) -> list[tuple[Case, Other]]:
    """Return each of the first with one of the second in turn, or with every one of them."""
    if Run.is_hunt:
        return list(product(first, second))
    return list(zip(first, cycle(second), strict=False))
