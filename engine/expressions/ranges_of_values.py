"""Casts and functions over ranges: exact for one value, bounded if they preserve the order."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from engine.errors import CannotEvaluateError
from engine.expressions.arrow_cast import arrow_type
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.ranges import UNKNOWN, ValueRange, constant
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.expressions.types import FLOATS, INTEGRALS
from engine.schema.types import DATE, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ, DataType, DecimalType

_ORDER_KEEPING = {"year": 0, "trunc": 0, "date_trunc": 1, "date_add": 0, "date_sub": 0}
"""Functions that preserve the order of the argument at this index."""
_NO_ANSWER = -1


def cast_ranges(
    ranges: Sequence[ValueRange], source: DataType, target: DataType
) -> list[ValueRange]:
    """Cast ranges; a range of several values becomes UNKNOWN if the cast may change their order."""
    convert = _monotone(source, target)
    if convert is not None:
        return [_convert_range(range_, convert) for range_ in ranges]
    call = Call("cast", (Column(("",), source),), target)
    single = [[range_.low] for range_ in ranges if range_.values and range_.known]
    answers = iter(_evaluate_rows(call, single))
    return [
        _drop_nan(range_, target)
        if not range_.values
        else next(answers)
        if range_.known
        else UNKNOWN
        for range_ in ranges
    ]


def _drop_nan(range_: ValueRange, target: DataType) -> ValueRange:
    """Return UNKNOWN for NaN unless the target is floating point, which has it; null stays null."""
    return UNKNOWN if range_.nan and target not in FLOATS else range_


def _convert_range(range_: ValueRange, convert: Callable[[Any], Any]) -> ValueRange:
    if not range_.values:
        return range_
    low = None if range_.low is None else convert(range_.low)
    high = None if range_.high is None else convert(range_.high)
    return ValueRange(low, high, range_.values, range_.null, range_.nan)


def evaluate_calls(call: Call, rows: Sequence[Sequence[ValueRange | None]]) -> list[ValueRange]:
    """Evaluate a call for each row of argument ranges; None stands for a literal."""
    at = _ORDER_KEEPING.get(call.function)
    asked: list[list[Any]] = []
    places = [_ask(row, at, asked) for row in rows]
    answers = [*_evaluate_rows(call, asked), UNKNOWN]
    return [
        answers[low]
        if moving is None
        else ValueRange(answers[low].low, answers[high].high, moving.values, null=True, nan=False)
        for low, high, moving in places
    ]


def _ask(
    row: Sequence[ValueRange | None], at: int | None, asked: list[list[Any]]
) -> tuple[int, int, ValueRange | None]:
    """Queue the argument values for one row's range; return the indices of its results."""
    values = [range_.value if range_ is not None and range_.known else None for range_ in row]
    unknown = [index for index, range_ in enumerate(row) if range_ is not None and not range_.known]
    if not unknown:
        asked.append(values)
        return len(asked) - 1, -1, None
    moving = row[unknown[0]]
    if unknown != [at] or moving is None:
        return _NO_ANSWER, _NO_ANSWER, None
    ends = []
    for bound in (moving.low, moving.high):
        if bound is not None:
            asked.append([bound if index == at else value for index, value in enumerate(values)])
        ends.append(_NO_ANSWER if bound is None else len(asked) - 1)
    return ends[0], ends[1], moving


@cache
def _monotone(source: DataType, target: DataType) -> Callable[[Any], Any] | None:
    """Return an order-preserving conversion of single values; None if the cast is not."""
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


def _evaluate_rows(call: Call, rows: Sequence[Sequence[Any]]) -> list[ValueRange]:
    """Evaluate a call for each row of arguments: as columns, or row by row after an error."""
    ranges = _evaluate_columns(call, rows) if len(rows) > 1 else None
    return [_evaluate_row(call, row) for row in rows] if ranges is None else ranges


def _evaluate_columns(call: Call, rows: Sequence[Sequence[Any]]) -> list[ValueRange] | None:
    arguments: list[Expression] = []
    columns: dict[str, pa.Array] = {"": pa.nulls(len(rows))}
    try:
        for index, argument in enumerate(call.arguments):
            name = f"a{index}"
            if isinstance(argument, Literal):
                arguments.append(argument)
            else:
                columns[name] = pa.array([row[index] for row in rows], arrow_type(argument.type))
                arguments.append(Column((name,), argument.type))
        results = evaluate_arrow(
            Call(call.function, tuple(arguments), call.type), pa.table(columns)
        )
    except (CannotEvaluateError, ValueError, TypeError, OverflowError, pa.ArrowException):
        return None
    return [constant(value) for value in results.to_pylist()]


def _evaluate_row(call: Call, values: Sequence[Any]) -> ValueRange:
    arguments = tuple(
        argument if isinstance(argument, Literal) else Literal(value, argument.type)
        for argument, value in zip(call.arguments, values, strict=True)
    )
    return _evaluate_constant(Call(call.function, arguments, call.type))


def _evaluate_constant(expression: Expression) -> ValueRange:
    try:
        return constant(evaluate_arrow(expression, pa.table({"": pa.nulls(1)}))[0].as_py())
    except (CannotEvaluateError, ValueError, OverflowError):
        return UNKNOWN
