"""Literals: from the text of a token to a typed value."""

import math
import re
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

from engine.expressions.tree import INTERVAL, Interval, Literal
from engine.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)

_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(E[+-]?[0-9]+)?(L|S|Y|D|F|BD)?\Z")
_INTEGERS = {"Y": (BYTE, 7), "S": (SHORT, 15), "L": (LONG, 63)}
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2}):?([0-9]{2})?\Z")
_UNITS = {
    "YEAR": ("MONTH", 12),
    "MONTH": ("MONTH", 1),
    "WEEK": ("DAY", 7),
    "DAY": ("DAY", 1),
    "HOUR": ("MICROSECOND", 3_600_000_000),
    "MINUTE": ("MICROSECOND", 60_000_000),
    "SECOND": ("MICROSECOND", 1_000_000),
    "MILLISECOND": ("MICROSECOND", 1_000),
    "MICROSECOND": ("MICROSECOND", 1),
}
_MAX_INTERVAL = 10**15
_MAX_INTERVAL_TEXT = 1_000


def number_literal(text: str, *, negative: bool = False) -> Literal | None:
    """The literal of an upper-case number with Spark's suffixes; None where it is none.

    Integers are INT, else BIGINT, else DECIMAL, as they fit; a point makes a DECIMAL, an
    exponent a DOUBLE.
    """
    match = _NUMBER.match(text)
    if not match or len(text) > 400:
        return None
    digits, exponent, suffix = match.groups()
    sign = -1 if negative else 1
    if suffix in {"D", "F"} or (exponent and suffix is None):
        return _floating(sign * float(digits + (exponent or "")), suffix)
    if suffix in _INTEGERS:
        return _integer(sign, digits, exponent, suffix)
    if suffix is None and is_whole(digits):
        return _plain_integer(sign * int(digits))
    number = Decimal(digits + (exponent or ""))  # arithmetic would round it to 28 digits
    return _decimal(number.copy_negate() if negative else number)


def is_whole(text: str) -> bool:
    """Whether a text is ASCII digits and nothing else."""
    return text.isascii() and text.isdigit()


def _floating(value: float, suffix: str | None) -> Literal | None:
    if suffix == "F":
        value = as_single(value)
    if value in {float("inf"), float("-inf")}:
        return None
    return Literal(value, FLOAT if suffix == "F" else DOUBLE)


def as_single(value: float) -> float:
    """The value of single precision nearest to it: what a FLOAT of that text holds."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(float("inf"), value)
    return single


def _integer(sign: int, digits: str, exponent: str | None, suffix: str) -> Literal | None:
    data_type, bits = _INTEGERS[suffix]
    if exponent or not is_whole(digits):
        return None
    value = sign * int(digits)
    return Literal(value, data_type) if -(2**bits) <= value < 2**bits else None


def _plain_integer(value: int) -> Literal | None:
    for data_type, bits in ((INTEGER, 31), (LONG, 63)):
        if -(2**bits) <= value < 2**bits:
            return Literal(value, data_type)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> Literal | None:
    data_type = decimal_type_of(value)
    return Literal(value, data_type) if data_type else None


def decimal_type_of(value: Decimal) -> DecimalType | None:
    """The smallest decimal type that holds the value; None beyond 38 digits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        return None
    scale = -exponent
    precision = max(len(digits), scale)
    return DecimalType(precision, scale) if precision <= 38 else None


def parse_date(text: str) -> date | None:
    """A date as Spark casts it from a string: what follows the day is ignored after T or space."""
    match = _DATE.match(text.strip())
    if not match:
        return None
    rest = text.strip()[match.end() :]
    if rest and rest[0] not in "T ":
        return None
    try:
        return date(*(int(group) for group in match.groups()))
    except ValueError:
        return None


def parse_timestamp(text: str, *, zone: bool = True) -> datetime | None:
    """A timestamp from a string: in UTC, or naive without `zone`. Text without a zone is UTC."""
    day = _DATE.match(text.strip())
    if not day:
        return None
    rest = text.strip()[day.end() :]
    if rest == "T" or (rest and rest[0] not in "T "):
        return None
    try:
        return _moment(day, rest[1:].strip(), zone=zone)
    except (ValueError, KeyError, OverflowError, OSError):
        return None


def _moment(day: re.Match[str], rest: str, *, zone: bool) -> datetime | None:
    time = _TIME.match(rest)
    hour, minute, second, fraction = time.groups() if time else ("0", "0", "0", None)
    micros = int((fraction or "0").ljust(6, "0")[:6])
    year, month, number = (int(group) for group in day.groups())
    naive = datetime(year, month, number, int(hour), int(minute), int(second or 0), micros)  # noqa: DTZ001
    zone_text = rest[time.end() :].strip() if time else rest
    if not zone:
        return naive if not zone_text else None
    return naive.replace(tzinfo=_zone(zone_text)).astimezone(UTC)


def _zone(text: str) -> timezone | ZoneInfo:
    if text.upper() in {"", "Z", "UTC", "GMT"}:
        return UTC
    match = _OFFSET.match(text)
    if not match:
        return ZoneInfo(text)
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if offset > timedelta(hours=18):
        raise ValueError(text)
    return timezone(-offset if sign == "-" else offset)


def typed_literal(kind: str, text: str) -> Literal | None:
    """`DATE 'text'` and its like; None where the text is no such value."""
    moments: dict[str, tuple[DataType, date | datetime | None]] = {
        "DATE": (DATE, parse_date(text)),
        "TIMESTAMP": (TIMESTAMP, parse_timestamp(text)),
        "TIMESTAMP_LTZ": (TIMESTAMP, parse_timestamp(text)),
        "TIMESTAMP_NTZ": (TIMESTAMP_NTZ, parse_timestamp(text, zone=False)),
    }
    data_type, value = moments[kind]
    return None if value is None else Literal(value, data_type)


def interval_literal(amount: str, unit: str) -> Literal | None:
    """`INTERVAL amount unit`; None for a unit or amount that is none."""
    scale = _UNITS.get(unit.upper().removesuffix("S"))
    if not scale or not re.fullmatch(r"[+-]?[0-9]{1,12}(\.[0-9]{1,6})?", amount.strip()):
        return None
    name, factor = scale
    total = Decimal(amount.strip()) * factor
    if total != int(total) or abs(total) > _MAX_INTERVAL:
        return None
    return Literal(Interval(int(total), name), INTERVAL)


def interval_text(text: str) -> Literal | None:
    """`INTERVAL 'amount unit …'`; None for a text of other words, or of months beside days."""
    words = text.split() if len(text) <= _MAX_INTERVAL_TEXT else []
    words = words[words[:1] == ["interval"] :]
    if not words or len(words) % 2:
        return None
    spans = [interval_literal(*pair) for pair in zip(words[::2], words[1::2], strict=True)]
    total: Interval | None = None
    for span in spans:
        if span is None or not isinstance(span.value, Interval):
            return None
        if total is not None and (total.unit == "MONTH") != (span.value.unit == "MONTH"):
            return None
        total = span.value if total is None else together(total, span.value)
    return Literal(total, INTERVAL)


def interval_between(text: str, first: str, last: str) -> Literal | None:
    """`INTERVAL 'text' first TO last`, as '1-2' YEAR TO MONTH; None where it is none."""
    names = ("DAY", "HOUR", "MINUTE", "SECOND")
    first, last = first.upper(), last.upper()
    if (first, last) == ("YEAR", "MONTH"):
        pattern, units = r"([0-9]{1,6})-([0-9]{1,2})", ["YEAR", "MONTH"]
    elif first in names and last in names[names.index(first) + 1 :]:
        units = list(names[names.index(first) : names.index(last) + 1])
        seconds = r"([0-9]{1,2}(?:\.[0-9]{1,6})?)"
        parts = [seconds if unit == "SECOND" else r"([0-9]{1,9})" for unit in units]
        pattern = parts[0] + (" " if first == "DAY" else ":") + ":".join(parts[1:])
    else:
        return None
    match = re.fullmatch(rf"([+-]?){pattern}", text.strip())
    if match is None or not _within(match.groups()[1:], units):
        return None
    total: Interval | None = None
    for amount, unit in zip(match.groups()[1:], units, strict=True):
        part = interval_literal(match[1] + amount, unit)
        if part is None or not isinstance(part.value, Interval):
            return None
        total = part.value if total is None else together(total, part.value)
    return Literal(total, INTERVAL)


def _within(amounts: Sequence[str], units: Sequence[str]) -> bool:
    """Whether the parts after the first are no more than these have: 59 minutes in an hour."""
    most = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}
    rest = zip(amounts[1:], units[1:], strict=True)
    return all(int(Decimal(amount)) <= most[unit] for amount, unit in rest)


def together(one: Interval, other: Interval) -> Interval:
    """Two spans of one kind as one; beside hours a day is 24 of them, as in Spark."""
    if one.unit == other.unit:
        return Interval(one.amount + other.amount, one.unit)
    scaled = (
        span.amount * (_UNITS["HOUR"][1] * 24 if span.unit == "DAY" else 1) for span in (one, other)
    )
    return Interval(sum(scaled), "MICROSECOND")
