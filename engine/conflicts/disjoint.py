"""Test whether two conditions can select the same row, by their comparisons with literals."""

from collections.abc import Callable, Iterable, Sequence

from engine.errors import CannotEvaluateError
from engine.expressions.possible_values import possible
from engine.expressions.ranges import UNKNOWN, ValueRange, constant
from engine.expressions.ranges_of_values import cast_ranges
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.expressions.types import common_type


def disjoint(one: Sequence[Expression], other: Sequence[Expression]) -> bool:
    """Return whether certainly no row satisfies both conditions; False if unknown.

    Each condition is a list of conjuncts; omitted conjuncts only make it wider.
    """
    return any(
        not possible(part, _bounds(against)).true
        for parts, against in ((one, other), (other, one))
        for part in parts
    )


def _bounds(parts: Iterable[Expression]) -> Callable[[Column], ValueRange]:
    """Return a function giving the possible values of a column under a condition."""
    ranges: dict[tuple[str, ...], ValueRange] = {}
    for part in parts:
        match part:
            case Call(function, (Column() as column, *options)):
                narrower = _range(function, column, options)
                ranges[column.path] = _intersect_ranges(ranges.get(column.path, UNKNOWN), narrower)
            case _:
                continue
    return lambda column: ranges.get(column.path, UNKNOWN)


def _range(function: str, column: Column, options: Sequence[Expression]) -> ValueRange:
    """Return the values of a column allowed by a comparison with literals."""
    values = [_convert_option(column, option) for option in options]
    bounds = [value for value in values if value is not None]
    if not bounds or len(bounds) < len(values):
        return UNKNOWN
    match function:
        case "=" | "in":
            low, high = min(bound.low for bound in bounds), max(bound.high for bound in bounds)
            return ValueRange(low, high, null=False, nan=False)
        case "<" | "<=":
            return ValueRange(None, bounds[0].high, null=False)
        case ">" | ">=":
            return ValueRange(bounds[0].low, None, null=False)
        case _:
            return UNKNOWN


def _convert_option(column: Column, option: Expression) -> ValueRange | None:
    """Convert a literal to the column's type; return None if Spark compares in another type."""
    if not isinstance(option, Literal) or option.value is None:
        return None
    if common_type([column.type, option.type]) != column.type:
        return None
    try:
        [value] = cast_ranges([constant(option.value)], option.type, column.type)
    except (CannotEvaluateError, TypeError, ValueError, ArithmeticError):
        return None
    return value if value.known and not value.null and not value.nan else None


def _intersect_ranges(one: ValueRange, other: ValueRange) -> ValueRange:
    lows = [side.low for side in (one, other) if side.low is not None]
    highs = [side.high for side in (one, other) if side.high is not None]
    return ValueRange(
        max(lows, default=None),
        min(highs, default=None),
        null=one.null and other.null,
        nan=one.nan and other.nan,
    )
