"""Rows as text that two engines agree on, whatever Python type each gives a value.

Only the standard library: both sides import it, each from its own environment.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

THREADS = 3
"""Cases that a side works on at once."""


def canonical_rows(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return one line of JSON for each row, sorted."""
    return sorted(
        json.dumps([canonical(value) for value in row], ensure_ascii=False) for row in rows
    )


def canonical(value: Any) -> Any:
    """Return the value without details that only one engine reports (zones, scale, row classes)."""
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return convert(value)
    return value.toJson() if hasattr(value, "toJson") else repr(value)


def first_difference(one: list[str], other: list[str]) -> str:
    """Return a short description of the first difference of two lists of rows; "" if they are equal."""
    if one == other:
        return ""
    missing = [row for row in one if row not in set(other)]
    extra = [row for row in other if row not in set(one)]
    return (
        f"{len(one)} rows against {len(other)}; only first: {missing[:2]}; only second: {extra[:2]}"
    )


def _float(value: float) -> Any:
    return value if value == value and abs(value) != float("inf") else repr(value)


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    return sorted(([canonical(key), canonical(item)] for key, item in pairs), key=json.dumps)


class Pairs(tuple):
    """The entries of a map, which some libraries return as a list."""

    __slots__ = ()


_CONVERSIONS: tuple[tuple[Any, Any], ...] = (
    ((type(None), bool, int, str), lambda value: value),
    (float, _float),
    (Decimal, lambda value: format(value.normalize(), "f")),
    (datetime, lambda value: value.replace(tzinfo=None).isoformat(timespec="microseconds")),
    (date, lambda value: value.isoformat()),
    ((bytes, bytearray), lambda value: value.hex()),
    (Pairs, _pairs),
    (dict, lambda value: _pairs(value.items())),
    ((list, tuple), lambda value: [canonical(item) for item in value]),
)
