"""Functions of dates and timestamps over Arrow values; the session's time zone is UTC."""

import calendar
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.arrow_cast import Value, arrow_type, convert, inexact, rowwise
from engine.expressions.tree import Interval
from engine.schema.civil_time import DAY_MICROS, days_of
from engine.schema.types import DATE, INTEGER, LONG, TIMESTAMP, DataType

Operation: TypeAlias = Callable[[list[Value], list[DataType], DataType], Value]
_Day = TypeVar("_Day", date, datetime)
_FIRST_DAY, _LAST_DAY = days_of("-32000-01-01"), days_of("+32000-01-01")
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{word: word for word in ("quarter", "week", "hour", "minute", "second")},
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
