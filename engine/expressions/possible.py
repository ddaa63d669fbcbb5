"""What an expression can be, given only bounds on its columns: never less than the truth.

An `Outcomes` says which of true, false and null a condition may take for some row within the
bounds. What cannot be reasoned about may be anything, so only the absence of `true` proves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from engine.errors import CannotEvaluateError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.tree import Call, Column, Expression, Interval, Literal, Subquery
from engine.expressions.types import FLOATS, INTEGRALS, common_type, is_complex
from engine.schema.types import BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, DataType, DecimalType


class Outcomes(NamedTuple):
    """Whether a condition may be true, false and null."""

    true: bool
    false: bool
    null: bool


ANY = Outcomes(true=True, false=True, null=True)
_LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Range:
    """The values an expression can take: null, NaN, and those from `low` to `high`, inclusive.

    None as a bound is no bound. `values` is False where nothing between the bounds can be.
    """

    low: Any = None
    high: Any = None
    values: bool = True
    null: bool = True
    nan: bool = True

    @property
    def point(self) -> bool:
        """Whether there is exactly one value it can take, null not among them."""
        alone = not self.null and not self.nan and self.values
        return alone and self.low is not None and bool(self.low == self.high)

    @property
    def known(self) -> bool:
        """Whether it is one value, null or NaN."""
        return self.point or (not self.values and self.null != self.nan)

    @property
    def value(self) -> Any:  # noqa: ANN401 - any value
        """The one value of a known range."""
        return float("nan") if self.nan else self.low


UNKNOWN = Range()
NULL = Range(values=False, nan=False)
Bounds = Callable[[Column], Range]


def constant(value: Any) -> Range:  # noqa: ANN401 - any value of any type
    """The range of one value."""
    if value is None:
        return NULL
    if isinstance(value, float) and value != value:
        return Range(values=False, null=False)
    return Range(value, value, null=False, nan=False)


def possible(expression: Expression, bounds: Bounds) -> Outcomes:  # noqa: PLR0911
    """The truths a condition can have for rows whose columns lie within `bounds`."""
    match expression:
        case Call("and", arguments):
            return _all([possible(each, bounds) for each in arguments])
        case Call("or", arguments):
            return _inverse(_all([_inverse(possible(each, bounds)) for each in arguments]))
        case Call("not", (argument,)):
            return _inverse(possible(argument, bounds))
        case Call(function, arguments) if function in _TESTS:
            try:
                return _TESTS[function](arguments, bounds)
            except (CannotEvaluateError, TypeError, ValueError, ArithmeticError):
                return ANY
        case _:
            return _truth(range_of(expression, bounds))


def range_of(expression: Expression, bounds: Bounds) -> Range:  # noqa: PLR0911
    """The values an expression can take."""
    match expression:
        case Literal(Interval()) | Subquery():
            return UNKNOWN
        case Literal(value):
            return constant(value)
        case Column():
            return bounds(expression)
        case Call(function, (argument,)) if function in {"cast", "to_date", "to_timestamp"}:
            return _cast(range_of(argument, bounds), argument.type, expression.type)
        case Call(function) if expression.type == BOOLEAN and function in _BOOLEAN_CALLS:
            return _as_range(possible(expression, bounds))
        case Call():
            return _call(expression, bounds)


def _all(parts: Sequence[Outcomes]) -> Outcomes:
    true = all(each.true for each in parts)
    false = any(each.false for each in parts)
    null = any(each.null for each in parts) and all(each.true or each.null for each in parts)
    return Outcomes(true, false, null)


def _inverse(outcomes: Outcomes) -> Outcomes:
    return Outcomes(outcomes.false, outcomes.true, outcomes.null)


def _truth(found: Range) -> Outcomes:
    if not found.values:
        return Outcomes(true=False, false=False, null=found.null)
    return Outcomes(found.high is not False, found.low is not True, found.null)


def _as_range(outcomes: Outcomes) -> Range:
    return Range(
        low=not outcomes.false,
        high=outcomes.true,
        values=outcomes.true or outcomes.false,
        null=outcomes.null,
        nan=False,
    )


# --- tests ---


def _compare(holds: Callable[[Range, Range], tuple[bool, bool]]) -> Callable[..., Outcomes]:
    def run(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
        left, right = _common([range_of(each, bounds) for each in arguments], arguments)
        null = left.null or right.null
        if not _has_value(left) or not _has_value(right):
            return Outcomes(true=False, false=False, null=True)
        return Outcomes(*holds(left, right), null)

    return run


def _has_value(found: Range) -> bool:
    return found.values or found.nan


def _common(ranges: list[Range], arguments: Sequence[Expression]) -> list[Range]:
    types = [each.type for each in arguments]
    target = common_type(types)
    if target is None or is_complex(target):
        return [UNKNOWN for _ in ranges]
    return [_cast(found, source, target) for found, source in zip(ranges, types, strict=True)]


def _meets(left: Range, right: Range) -> bool:
    """Whether some value can be in both."""
    if left.nan and right.nan:
        return True
    if not (left.values and right.values):
        return False
    return _reaches(left.low, right.high) and _reaches(right.low, left.high)


def _reaches(low: Any, high: Any) -> bool:  # noqa: ANN401 - bounds of one type
    return low is None or high is None or bool(low <= high)


def _equal(left: Range, right: Range) -> tuple[bool, bool]:
    meets = _meets(left, right)
    same = _certain(left) and _certain(right) and meets
    return meets, not same


def _certain(found: Range) -> bool:
    only_nan = found.nan and not found.values
    one = found.values and not found.nan and found.low is not None and found.low == found.high
    return bool(only_nan or one)


def _less(left: Range, right: Range) -> tuple[bool, bool]:
    both = left.values and right.values
    below = both and (left.low is None or right.high is None or bool(left.low < right.high))
    at_least = both and _reaches(right.low, left.high)
    return below or (left.values and right.nan), at_least or left.nan


def _null_safe_equal(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
    left, right = _common([range_of(each, bounds) for each in arguments], arguments)
    meets, differs = (
        _equal(left, right) if _has_value(left) and _has_value(right) else (False, False)
    )
    one_null = (left.null and _has_value(right)) or (right.null and _has_value(left))
    return Outcomes(meets or (left.null and right.null), differs or one_null, null=False)


def _in(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
    equal = _TESTS["="]
    found = [_inverse(equal((arguments[0], each), bounds)) for each in arguments[1:]]
    same_type = common_type([each.type for each in arguments])
    pairwise = all(common_type([arguments[0].type, e.type]) == same_type for e in arguments[1:])
    has_rows = not any(isinstance(each, Subquery) for each in arguments)
    return _inverse(_all(found)) if pairwise and found and has_rows else ANY


def _is_null(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
    found = range_of(arguments[0], bounds)
    return Outcomes(found.null, _has_value(found), null=False)


def _is_not_null(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
    return _inverse(_is_null(arguments, bounds))


def _like(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
    pattern = arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or len(arguments) > 2:
        return ANY
    end = min((at for at in map(pattern.value.find, "%_\\") if at >= 0), default=None)
    return _begins(arguments[0], pattern.value[:end], bounds)


def _starts_with(arguments: Sequence[Expression], bounds: Bounds) -> Outcomes:
    prefix = arguments[1]
    if not isinstance(prefix, Literal) or not isinstance(prefix.value, str):
        return ANY
    return _begins(arguments[0], prefix.value, bounds)


def _begins(operand: Expression, prefix: str, bounds: Bounds) -> Outcomes:
    found = range_of(operand, bounds)
    wanted = Range(prefix, after_prefix(prefix), null=False, nan=False)
    return Outcomes(_meets(replace(found, nan=False), wanted), found.values, found.null)


def after_prefix(prefix: str) -> str | None:
    """A text at or above every text that begins with `prefix`; None where there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index])
        if code < _LAST:
            return prefix[:index] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def _flipped(test: Callable[[Range, Range], tuple[bool, bool]]) -> Callable[..., tuple[bool, bool]]:
    return lambda left, right: test(right, left)


def _negated(test: Callable[[Range, Range], tuple[bool, bool]]) -> Callable[..., tuple[bool, bool]]:
    return lambda left, right: test(left, right)[::-1]


_TESTS: dict[str, Callable[[Sequence[Expression], Bounds], Outcomes]] = {
    "=": _compare(_equal),
    "<>": _compare(_negated(_equal)),
    "<": _compare(_less),
    ">": _compare(_flipped(_less)),
    ">=": _compare(_negated(_less)),
    "<=": _compare(_negated(_flipped(_less))),
    "<=>": _null_safe_equal,
    "in": _in,
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "like": _like,
    "startswith": _starts_with,
}
_BOOLEAN_CALLS = frozenset({*_TESTS, "and", "or", "not"})


# --- values ---


def _cast(found: Range, source: DataType, target: DataType) -> Range:
    """The range after a cast; a cast that does not keep the order gives UNKNOWN."""
    if source == target or not found.values:
        return found
    convert = _monotone(source, target)
    if convert is None:
        return (
            _evaluated_cast(found, source, target)
            if found.point
            else replace(UNKNOWN, null=found.null)
        )
    low, high = (None if each is None else convert(each) for each in (found.low, found.high))
    return replace(found, low=low, high=high)


def _monotone(source: DataType, target: DataType) -> Callable[[Any], Any] | None:
    if target in FLOATS[1:] and (
        source in INTEGRALS or source in FLOATS or isinstance(source, DecimalType)
    ):
        return float
    if isinstance(target, DecimalType):
        whole = isinstance(source, DecimalType) and source.scale <= target.scale
        return Decimal if source in INTEGRALS or whole else None
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


def _evaluated_cast(found: Range, source: DataType, target: DataType) -> Range:
    return _evaluated(Call("cast", (Literal(found.low, source),), target))


def _call(call: Call, bounds: Bounds) -> Range:
    """A function of one value each is evaluated; year and truncation keep the order of time."""
    at = _ORDER_KEEPING.get(call.function)
    ranges = [_argument(each, bounds) for each in call.arguments]
    if all(each is None or each.known for each in ranges):
        return _at(call, [None if each is None else each.value for each in ranges])
    moving = ranges[at] if at is not None else None
    others = [each for index, each in enumerate(ranges) if index != at]
    if moving is None or not all(each is None or each.point for each in others):
        return UNKNOWN
    ends = [
        _at(call, [end if index == at else each and each.low for index, each in enumerate(ranges)])
        if end is not None
        else UNKNOWN
        for end in (moving.low, moving.high)
    ]
    return Range(ends[0].low, ends[1].high, moving.values, null=True, nan=False)


_ORDER_KEEPING = {"year": 0, "trunc": 0, "date_trunc": 1, "date_add": 0, "date_sub": 0}


def _argument(argument: Expression, bounds: Bounds) -> Range | None:
    """Its range; None for what is a literal already and needs none."""
    return None if isinstance(argument, Literal) else range_of(argument, bounds)


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
