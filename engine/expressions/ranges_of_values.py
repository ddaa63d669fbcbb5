"""Casts and functions over ranges: exact for one value, bounded where they keep the order."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from engine.errors import CannotEvaluateError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.ranges import UNKNOWN, Range, constant
from engine.expressions.tree import Call, Expression, Literal
from engine.expressions.types import FLOATS, INTEGRALS
from engine.schema.types import DATE, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ, DataType, DecimalType

_ORDER_KEEPING = {"year": 0, "trunc": 0, "date_trunc": 1, "date_add": 0, "date_sub": 0}
"""Functions that keep the order of the argument at that place."""


def cast_range(found: Range, source: DataType, target: DataType) -> Range:
    """The range after a cast; a cast that does not keep the order gives UNKNOWN."""
    if not found.values:
        return found
    convert = _monotone(source, target)
    if convert is not None:
        low = None if found.low is None else convert(found.low)
        high = None if found.high is None else convert(found.high)
        return found._replace(low=low, high=high)
    if found.known:
        return _evaluated(Call("cast", (Literal(found.low, source),), target))
    return UNKNOWN


def evaluated_call(call: Call, ranges: Sequence[Range | None]) -> Range:
    """The range of a call whose arguments have these; None stands for what is a literal."""
    if all(each is None or each.known for each in ranges):
        return _at(call, [None if each is None else each.value for each in ranges])
    at = _ORDER_KEEPING.get(call.function)
    moving = None if at is None else ranges[at]
    others = [each for index, each in enumerate(ranges) if index != at]
    if moving is None or not all(each is None or each.known for each in others):
        return UNKNOWN

    def end(bound: Any) -> Range:  # noqa: ANN401 - any value
        values = [
            bound if index == at else None if each is None else each.value
            for index, each in enumerate(ranges)
        ]
        return UNKNOWN if bound is None else _at(call, values)

    return Range(end(moving.low).low, end(moving.high).high, moving.values, null=True, nan=False)


@cache
def _monotone(source: DataType, target: DataType) -> Callable[[Any], Any] | None:
    """A conversion of single values that keeps their order; None where the cast does not."""
    if source == target:
        return lambda value: value
    if target == DOUBLE and (
        source in INTEGRALS or source in FLOATS or isinstance(source, DecimalType)
    ):
        return float
    if isinstance(target, DecimalType):
        widens = isinstance(source, DecimalType) and source.scale <= target.scale
        return Decimal if source in INTEGRALS or widens else None
    if source in INTEGRALS and target in INTEGRALS:
        return int
    return _MOMENTS.get((source, target))


_MOMENTS: dict[tuple[DataType, DataType], Callable[[Any], Any]] = {
    (DATE, TIMESTAMP): lambda day: datetime.combine(day, time(), UTC),
    (DATE, TIMESTAMP_NTZ): lambda day: datetime.combine(day, time()),
    (TIMESTAMP, DATE): lambda moment: moment.date(),
    (TIMESTAMP_NTZ, DATE): lambda moment: moment.date(),
    (TIMESTAMP, TIMESTAMP_NTZ): lambda moment: moment.replace(tzinfo=None),
    (TIMESTAMP_NTZ, TIMESTAMP): lambda moment: moment.replace(tzinfo=UTC),
}


def _at(call: Call, values: Sequence[Any]) -> Range:
    arguments = tuple(
        each if isinstance(each, Literal) else Literal(value, each.type)
        for each, value in zip(call.arguments, values, strict=True)
    )
    return _evaluated(Call(call.function, arguments, call.type))


def _evaluated(expression: Expression) -> Range:
    try:
        return constant(evaluate_arrow(expression, pa.table({"": pa.nulls(1)}))[0].as_py())
    except (CannotEvaluateError, ValueError, OverflowError):
        return UNKNOWN
