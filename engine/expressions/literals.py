"""Literals: from the text of a token to a typed value."""

import math
import re
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

from engine.expressions.tree import INTERVAL, Interval, Literal
from engine.schema.text_values import trim_text
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
_TIME = re.compile(
    r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?(\D.*)?)?", re.DOTALL
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(?![0-9]{3}(?![0-9]))([0-9]{1,2})(?::?([0-9]{2}))?")
_CONTINENTS = "Africa|America|Antarctica|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific"
_REGION = re.compile(rf"(?:{_CONTINENTS})/[A-Za-z0-9_/+-]+")
_REGIONS_AGREE = datetime(1970, 1, 1, tzinfo=UTC)
"""Copies of the time zone database may merge regions that are alike from here on."""
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
    """Parse an upper-case number with Spark's suffixes; return None if it is none.

    Integers are the first of INT, BIGINT and DECIMAL that fits; a decimal point makes a DECIMAL, an
    exponent a DOUBLE.
    """
    match = _NUMBER.match(text)
    if not match or len(text) > 400:
        return None
    digits, exponent, suffix = match.groups()
    sign = -1 if negative else 1
    if suffix in {"D", "F"} or (exponent and suffix is None):
        return _float_literal(sign * float(digits + (exponent or "")), suffix)
    if suffix in _INTEGERS:
        return _integer(sign, digits, exponent, suffix)
    if suffix is None and is_whole(digits):
        return _plain_integer(sign * int(digits))
    number = Decimal(digits + (exponent or ""))  # arithmetic would round to 28 digits
    return _decimal(number.copy_negate() if negative else number)


def is_whole(text: str) -> bool:
    """Return whether a text is ASCII digits and nothing else."""
    return text.isascii() and text.isdigit()


def _float_literal(value: float, suffix: str | None) -> Literal | None:
    if suffix == "F":
        value = round_to_single(value)
    if value in {float("inf"), float("-inf")}:
        return None
    return Literal(value, FLOAT if suffix == "F" else DOUBLE)


def round_to_single(value: float) -> float:
    """Round to the nearest single-precision value, as a FLOAT holds it."""
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
    """Return the smallest decimal type for a value; None beyond 38 digits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        return None
    scale = -exponent
    precision = max(len(digits), scale)
    return DecimalType(precision, scale) if precision <= 38 else None


def parse_date(text: str) -> date | None:
    """Parse a date like Spark's cast; text after the day is ignored after T or space.

    Return None if the text is not a date, or only Spark can decide.
    """
    day, rest = _day_of(text)
    if day is None or (rest and rest[0] not in "T "):
        return None
    return day


def parse_timestamp(text: str, *, zone: bool = True, regions: bool = True) -> datetime | None:
    """Parse a timestamp like Spark's cast: in UTC, or naive without `zone`.

    Text without a zone is UTC. Return None if the text is not a timestamp, or only Spark can
    decide: a time before 1970 in a named region, of which Java and Python know different history,
    or without `regions` any time in a region.
    """
    day, rest = _day_of(text)
    if day is None:
        return None
    if not rest:
        return datetime(day.year, day.month, day.day, tzinfo=UTC if zone else None)
    clock = _TIME.fullmatch(rest[1:])
    if clock is None or rest[0] not in "T " or (clock[5] and not zone):
        return None
    try:
        moment = _moment(day, clock, zone=zone)
    except (ValueError, KeyError, OverflowError, OSError):
        return None
    in_region = _REGION.fullmatch((clock[5] or "").removeprefix(" ")) is not None
    return None if in_region and (not regions or moment < _REGIONS_AGREE) else moment


def _day_of(text: str) -> tuple[date | None, str]:
    """Split a leading date from a text."""
    trimmed = trim_text(text)
    match = _DATE.match(trimmed)
    if not match:
        return None, ""
    try:
        return date(*(int(group) for group in match.groups())), trimmed[match.end() :]
    except ValueError:
        return None, ""


def _moment(day: date, clock: re.Match[str], *, zone: bool) -> datetime:
    hour, minute, second, fraction, zone_text = clock.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    time = (int(hour), int(minute), int(second or 0), micros)
    naive = datetime(day.year, day.month, day.day, *time)  # noqa: DTZ001
    return naive.replace(tzinfo=_zone(zone_text or "")).astimezone(UTC) if zone else naive


def _zone(text: str) -> timezone | ZoneInfo:
    """Parse the zone after a time, following at most one space.

    Raises:
        ValueError: it is none, or Java may know it differently than Python.
    """
    name = text.removeprefix(" ")
    if name in {"", "Z", "UTC", "GMT"}:
        return UTC
    match = _OFFSET.fullmatch(name)
    if not match:
        if _REGION.fullmatch(name):
            return ZoneInfo(name)
        raise ValueError(text)
    sign, hours, minutes = match[1], int(match[2]), int(match[3] or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    if offset > timedelta(hours=18) or minutes > 59:
        raise ValueError(text)
    return timezone(-offset if sign == "-" else offset)


def has_zone(text: str) -> bool:
    """Return whether a timestamp's text names its time zone."""
    clock = _TIME.fullmatch(_day_of(text)[1][1:])
    return clock is not None and bool(clock[5])


def parse_typed_literal(kind: str, text: str) -> Literal | None:
    """Parse `DATE 'text'` and similar literals; return None if the text is not valid."""
    moments: dict[str, tuple[DataType, date | datetime | None]] = {
        "DATE": (DATE, parse_date(text)),
        "TIMESTAMP": (TIMESTAMP, parse_timestamp(text)),
        "TIMESTAMP_LTZ": (TIMESTAMP, parse_timestamp(text)),
        "TIMESTAMP_NTZ": (TIMESTAMP_NTZ, parse_timestamp(text, zone=False)),
    }
    data_type, value = moments[kind]
    return None if value is None else Literal(value, data_type)


def interval_literal(amount: str, unit: str) -> Literal | None:
    """Build `INTERVAL amount unit`; return None if the unit or amount is invalid."""
    scale = _UNITS.get(unit.upper().removesuffix("S"))
    if not scale or not re.fullmatch(r"[+-]?[0-9]{1,12}(\.[0-9]{1,6})?", amount.strip(" ")):
        return None
    name, factor = scale
    total = Decimal(amount.strip(" ")) * factor
    if total != int(total) or abs(total) > _MAX_INTERVAL:
        return None
    return Literal(Interval(int(total), name), INTERVAL)


def interval_text(text: str) -> Literal | None:
    """Parse `INTERVAL 'amount unit …'`; return None for unknown words or mixed months and days."""
    words = trim_text(text).split(" ") if len(text) <= _MAX_INTERVAL_TEXT else []
    words = [word for word in words if word]
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
    """Parse `INTERVAL 'text' first TO last`, as '1-2' YEAR TO MONTH; return None if invalid."""
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
    match = re.fullmatch(rf"([+-]?){pattern}", trim_text(text))
    if match is None or not _are_within_units(match.groups()[1:], units):
        return None
    total: Interval | None = None
    for amount, unit in zip(match.groups()[1:], units, strict=True):
        part = interval_literal(match[1] + amount, unit)
        if part is None or not isinstance(part.value, Interval):
            return None
        total = part.value if total is None else together(total, part.value)
    return Literal(total, INTERVAL)


def _are_within_units(amounts: Sequence[str], units: Sequence[str]) -> bool:
    """Return whether the parts after the first are in range: at most 59 minutes in an hour."""
    most = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}
    rest = zip(amounts[1:], units[1:], strict=True)
    return all(int(Decimal(amount)) <= most[unit] for amount, unit in rest)


def together(one: Interval, other: Interval) -> Interval:
    """Add two intervals of one kind; a day next to hours is 24 hours, as in Spark."""
    if one.unit == other.unit:
        return Interval(one.amount + other.amount, one.unit)
    scaled = (
        span.amount * (_UNITS["HOUR"][1] * 24 if span.unit == "DAY" else 1) for span in (one, other)
    )
    return Interval(sum(scaled), "MICROSECOND")
