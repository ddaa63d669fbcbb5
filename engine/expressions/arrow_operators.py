"""Operators, and functions of dates and timestamps, over Arrow values.

NaN and null compare as in Spark. The session's time zone is UTC.
"""

import calendar
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import reduce
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.arrow_cast import Value, arrow_type, convert, inexact, rowwise
from engine.expressions.like import MisplacedEscapeError, re2_pattern
from engine.expressions.tree import INTERVAL, VOID, Interval
from engine.expressions.types import FLOATS, INTEGRALS, common_type, is_complex
from engine.schema.civil_time import DAY_MICROS, days_of
from engine.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    TIMESTAMP,
    DataType,
    DecimalType,
)

Operation: TypeAlias = Callable[[list[Value], list[DataType], DataType], Value]
_Day = TypeVar("_Day", date, datetime)
_FIRST_DAY, _LAST_DAY = days_of("-32000-01-01"), days_of("+32000-01-01")
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{word: word for word in ("quarter", "week", "hour", "minute", "second")},
}

Operator: TypeAlias = Callable[[list[Value], list[DataType], DataType], Value]
_EXACT = pa.decimal256(76, 38)


def together(values: list[Value], types: list[DataType]) -> tuple[list[Value], DataType]:
    """Convert the values to the type Spark compares them in; return both."""
    common = common_type(types)
    if common is None or is_complex(common):
        inexact("a comparison of these types")
    if isinstance(common, DecimalType):
        if _overflows(types):
            inexact("a comparison of decimals beyond 38 digits")
        return [pc.cast(value, _EXACT) for value in values], common
    return [convert(v, t, common) for v, t in zip(values, types, strict=True)], common


def _overflows(types: list[DataType]) -> bool:
    decimals = [type_ for type_ in types if isinstance(type_, DecimalType)]
    whole = max(decimal.precision - decimal.scale for decimal in decimals)
    if any(type_ in INTEGRALS for type_ in types):
        whole = max(whole, 20)
    return whole + max(decimal.scale for decimal in decimals) > 38


def equal(left: Value, right: Value, data_type: DataType) -> Value:
    """Evaluate `=`: NaN equals NaN."""
    equal = pc.equal(left, right)
    if data_type in FLOATS:
        return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return equal


def less(left: Value, right: Value, data_type: DataType) -> Value:
    """Evaluate `<`: NaN is above everything else."""
    less = pc.less(left, right)
    if data_type in FLOATS:
        return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    return less


def _compare(test: Callable[[Value, Value, DataType], Value]) -> Operator:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        if VOID in types:
            return _nulls_like(values)
        (left, right), common = together(values, types)
        return test(left, right, common)

    return run


def _nulls_like(values: list[Value]) -> Value:
    arrays = [value for value in values if not isinstance(value, pa.Scalar)]
    return pa.nulls(len(arrays[0]), pa.bool_()) if arrays else pa.scalar(None, pa.bool_())


def _null_safe_equal(values: list[Value], types: list[DataType], _: DataType) -> Value:
    (left, right), common = together(values, types)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    if common == VOID:
        return both_null
    same = pc.coalesce(equal(left, right, common), pa.scalar(False))
    return pc.or_(same, both_null)


def _evaluate_in(values: list[Value], types: list[DataType], _: DataType) -> Value:
    together_values, common = together(values, types)
    operand, *options = together_values
    if common == VOID:
        return _nulls_like(values)
    if len(options) > 8 and common not in FLOATS and all(isinstance(o, pa.Scalar) for o in options):
        return _evaluate_in_set(operand, options)
    return reduce(pc.or_kleene, [equal(operand, option, common) for option in options])


def _evaluate_in_set(operand: Value, options: list[Value]) -> Value:
    valid = [option for option in options if option.is_valid]
    included = pc.is_in(
        operand, value_set=pa.array([scalar.as_py() for scalar in valid], operand.type)
    )
    unknown = pc.is_null(operand)
    if len(valid) < len(options):
        unknown = pc.or_(unknown, pc.invert(included))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), included)


def _logic(operator: Callable[[Value, Value], Value]) -> Operator:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        booleans = [convert(v, t, BOOLEAN) for v, t in zip(values, types, strict=True)]
        return reduce(operator, booleans)

    return run


def _not(values: list[Value], types: list[DataType], _: DataType) -> Value:
    return pc.invert(convert(values[0], types[0], BOOLEAN))


def _arithmetic(operator: Callable[[Value, Value], Value]) -> Operator:
    def run(values: list[Value], types: list[DataType], result: DataType) -> Value:
        if INTERVAL in types:
            return add_interval(values, types, negate=operator is pc.subtract_checked)
        if isinstance(result, DecimalType):
            return _decimal_arithmetic(operator, values, types, result)
        left, right = (convert(v, t, result) for v, t in zip(values, types, strict=True))
        return operator(left, right)

    return run


def _decimal_arithmetic(
    operator: Callable[[Value, Value], Value],
    values: list[Value],
    types: list[DataType],
    result: DecimalType,
) -> Value:
    scales = [type_.scale if isinstance(type_, DecimalType) else 0 for type_ in types]
    digits = [type_.precision if isinstance(type_, DecimalType) else 20 for type_ in types]
    if sum(digits) > 37 or result.precision == 38:
        inexact("decimal arithmetic near 38 digits")
    wide = [
        pc.cast(value, pa.decimal256(whole, scale))
        for value, whole, scale in zip(values, digits, scales, strict=True)
    ]
    return pc.cast(operator(*wide), arrow_type(result))


def _divide(values: list[Value], types: list[DataType], result: DataType) -> Value:
    if result != DOUBLE:
        inexact("a division of decimals")
    left, right = (convert(v, t, DOUBLE) for v, t in zip(values, types, strict=True))
    _refuse_zero(right)
    return pc.divide(left, right)


def _refuse_zero(divisor: Value) -> None:
    if _holds(divisor, 0):
        inexact("a division by zero")


def _holds(value: Value, number: int) -> bool:
    matches = pc.equal(value, pa.scalar(number, value.type))
    return (matches.as_py() if isinstance(matches, pa.Scalar) else pc.any(matches).as_py()) is True


def _whole_division(values: list[Value], types: list[DataType], result: DataType) -> Value:
    left, right = (convert(v, t, result) for v, t in zip(values, types, strict=True))
    _refuse_zero(right)
    return pc.divide_checked(left, right)


def _remainder(values: list[Value], types: list[DataType], result: DataType) -> Value:
    if result not in INTEGRALS:
        inexact("a remainder of fractions")
    left, right = (convert(v, t, result) for v, t in zip(values, types, strict=True))
    _refuse_zero(right)
    if _holds(right, -1):  # only a division of the smallest number by -1 overflows
        one = pa.scalar(1, right.type)
        right = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _positive_remainder(values: list[Value], types: list[DataType], result: DataType) -> Value:
    left = _remainder(values, types, result)
    right = convert(values[1], types[1], result)
    shifted = _remainder([pc.add_checked(left, right), right], [result, result], result)
    return pc.if_else(pc.less(left, pa.scalar(0, left.type)), shifted, left)


def _negative(values: list[Value], types: list[DataType], _: DataType) -> Value:
    return pc.negate(values[0]) if types[0] in FLOATS else pc.negate_checked(values[0])


def _evaluate_like(values: list[Value], types: list[DataType], _: DataType) -> Value:
    if VOID in types:
        return _nulls_like(values)
    if not all(isinstance(value, pa.Scalar) for value in values[1:]):
        inexact("LIKE with a pattern that is not a literal")
    escape = values[2].as_py() if len(values) == 3 else "\\"
    if values[1].as_py() is None:
        return _nulls_like(values)
    return pc.match_substring_regex(values[0], _re2(values[1].as_py(), escape))


def _re2(pattern: str, escape: str) -> str:
    try:
        return re2_pattern(pattern, escape)
    except MisplacedEscapeError:
        inexact("LIKE with a misplaced escape")


OPERATIONS: dict[str, Operator] = {
    "=": _compare(equal),
    "<>": _compare(lambda a, b, t: pc.invert(equal(a, b, t))),
    "<": _compare(less),
    ">": _compare(lambda a, b, t: less(b, a, t)),
    "<=": _compare(lambda a, b, t: pc.invert(less(b, a, t))),
    ">=": _compare(lambda a, b, t: pc.invert(less(a, b, t))),
    "<=>": _null_safe_equal,
    "in": _evaluate_in,
    "and": _logic(pc.and_kleene),
    "or": _logic(pc.or_kleene),
    "not": _not,
    "+": _arithmetic(pc.add_checked),
    "-": _arithmetic(pc.subtract_checked),
    "*": _arithmetic(pc.multiply_checked),
    "/": _divide,
    "div": _whole_division,
    "%": _remainder,
    "pmod": _positive_remainder,
    "negative": _negative,
    "like": _evaluate_like,
}


def _part(function: Callable[[Value], Value]) -> Operation:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        moment = check_calendar_range(convert(values[0], types[0], types[0]))
        return pc.cast(function(moment), pa.int32())

    return run


def _shift(sign: int) -> Operation:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        days = pc.cast(convert(values[0], types[0], DATE), pa.int32())
        count = convert(values[1], types[1], INTEGER)
        moved = pc.add_checked(days, count) if sign > 0 else pc.subtract_checked(days, count)
        return pc.cast(moved, pa.date32())

    return run


def _datediff(values: list[Value], types: list[DataType], _: DataType) -> Value:
    end, start = (
        pc.cast(convert(v, t, DATE), pa.int32()) for v, t in zip(values, types, strict=True)
    )
    return pc.subtract_checked(end, start)


def _add_months(values: list[Value], types: list[DataType], _: DataType) -> Value:
    day = convert(values[0], types[0], DATE)
    return rowwise(months_later, [day, values[1]], pa.date32())


def months_later(day: _Day, months: int) -> _Day:
    """Shift a date by months, to the same day or the month's last."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        inexact("a date outside the years 1 to 9999")
    last = calendar.monthrange(year, month + 1)[1]
    return day.replace(year=year, month=month + 1, day=min(day.day, last))


def _last_day(values: list[Value], types: list[DataType], _: DataType) -> Value:
    day = convert(values[0], types[0], DATE)
    return rowwise(
        lambda d: d.replace(day=calendar.monthrange(d.year, d.month)[1]), [day], pa.date32()
    )


def _truncate_time(value: Value, unit: Value, *, days_only: bool) -> Value:
    name = _UNITS.get((unit.as_py() or "").lower()) if isinstance(unit, pa.Scalar) else None
    if name is None or (days_only and name in {"day", "hour", "minute", "second"}):
        inexact("a truncation to this unit")
    return pc.floor_temporal(check_calendar_range(value), unit=name, week_starts_monday=True)


def check_calendar_range(value: Value) -> Value:
    """Refuse dates and timestamps outside Arrow's calendar, where it wraps around silently."""
    is_date = pa.types.is_date(value.type)
    numbers = pc.cast(value, pa.int32() if is_date else pa.int64())
    ends = pc.min_max(numbers if isinstance(numbers, pa.Array | pa.ChunkedArray) else [numbers])
    least, most = (ends[end].as_py() for end in ("min", "max"))
    day = 1 if is_date else DAY_MICROS
    if least is not None and not _FIRST_DAY <= least // day <= most // day <= _LAST_DAY:
        inexact("a date so many years away")
    return value


def _trunc(values: list[Value], types: list[DataType], _: DataType) -> Value:
    return _truncate_time(convert(values[0], types[0], DATE), values[1], days_only=True)


def _date_trunc(values: list[Value], types: list[DataType], _: DataType) -> Value:
    moment = convert(values[1], types[1], TIMESTAMP)
    return convert(_truncate_time(moment, values[0], days_only=False), TIMESTAMP, TIMESTAMP)


def _unix(divisor: int) -> Operation:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        micros = pc.cast(convert(values[0], types[0], TIMESTAMP), pa.int64())
        rest = pc.subtract(micros, pc.multiply(pc.divide(micros, divisor), divisor))
        negative = pc.cast(pc.less(rest, 0), pa.int64())
        return pc.subtract(pc.divide(micros, divisor), negative)

    return run


def _convert_unix_time(factor: int) -> Operation:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        micros = pc.multiply_checked(convert(values[0], types[0], LONG), factor)
        return pc.cast(micros, arrow_type(TIMESTAMP))

    return run


def _convert_to(target: DataType) -> Operation:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        return convert(values[0], types[0], target)

    return run


def add_interval(values: list[Value], types: list[DataType], *, negate: bool) -> Value:
    """Add an interval to a date or timestamp; a date plus a time interval becomes a timestamp."""
    interval = values[1]
    if not isinstance(interval, Interval):
        inexact("an interval that is not a literal")
    amount = -interval.amount if negate else interval.amount
    base, target = values[0], arrow_type(types[0])
    if interval.unit == "MONTH":
        return rowwise(lambda moment: months_later(moment, amount), [base], target)
    if types[0] == DATE:
        if interval.unit != "DAY":
            inexact("a date and an interval of hours")
        return rowwise(lambda day: day + timedelta(days=amount), [base], target)
    micros = amount * 86_400_000_000 if interval.unit == "DAY" else amount
    return pc.cast(pc.add_checked(pc.cast(base, pa.int64()), pa.scalar(micros)), target)


def _day_of_week(value: Value) -> Value:
    return pc.day_of_week(value, count_from_zero=False, week_start=7)


DATE_OPERATIONS: dict[str, Operation] = {
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "quarter": _part(pc.quarter),
    "dayofweek": _part(_day_of_week),
    "weekday": _part(pc.day_of_week),
    "dayofyear": _part(pc.day_of_year),
    "weekofyear": _part(pc.iso_week),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "to_date": _convert_to(DATE),
    "to_timestamp": _convert_to(TIMESTAMP),
    "date_add": _shift(1),
    "date_sub": _shift(-1),
    "add_months": _add_months,
    "datediff": _datediff,
    "last_day": _last_day,
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "unix_seconds": _unix(1_000_000),
    "unix_millis": _unix(1_000),
    "timestamp_seconds": _convert_unix_time(1_000_000),
    "timestamp_millis": _convert_unix_time(1_000),
}
