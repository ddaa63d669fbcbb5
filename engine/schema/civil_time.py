"""Dates and wall times of every year as numbers: Spark's calendar exceeds Python's.

Days and microseconds count from 1970, in the proleptic Gregorian calendar, as Delta's do. The year
before 1 is 0. Years beyond 9999 have a plus sign, as in Java.
"""

import re
from datetime import date, time, timedelta

from engine.schema.text_values import trim_text

DAY_MICROS = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # the calendar repeats after this many years
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DATE = re.compile(r"([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})(?:[ T].*)?", re.DOTALL | re.ASCII)
_CLOCK = re.compile(
    r"(?P<date>[+-]?\d{1,7}-\d{1,2}-\d{1,2})"
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r" ?(?P<zone>[Zz]|UTC|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)


def days_of(text: str) -> int:
    """Convert a date to days since 1970, ignoring a time after it.

    Raises:
        ValueError: the text is not a date.
    """
    match = _DATE.fullmatch(trim_text(text))
    if match is None:
        raise ValueError(text)
    year, month, day = (int(part) for part in match.groups())
    cycles = (year - 2000) // _CYCLE_YEARS
    inside_cycle = date(year - cycles * _CYCLE_YEARS, month, day)
    return inside_cycle.toordinal() - _EPOCH_ORDINAL + cycles * _CYCLE_DAYS


def micros_of(text: str, *, zoned: bool) -> int:
    """Convert a timestamp to microseconds: in UTC if `zoned`, else as wall time.

    A text without a zone is taken as UTC.

    Raises:
        ValueError: the text is not a timestamp.
    """
    match = _CLOCK.fullmatch(trim_text(text))
    if match is None:
        raise ValueError(text)
    fraction = int((match["fraction"] or "0").ljust(9, "0")) // 1000
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    time(hour, minute, second)  # refuses invalid times
    clock = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=fraction)
    offset = _offset(match["zone"]) if zoned else timedelta()
    return days_of(match["date"]) * DAY_MICROS + (clock - offset) // timedelta(microseconds=1)


def date_text(days: int) -> str:
    """Format a date as Java does: `2024-01-02`, `+10000-01-01`, `-0001-12-31`."""
    cycles = (days + _EPOCH_ORDINAL - 1) // _CYCLE_DAYS
    day = date.fromordinal(days + _EPOCH_ORDINAL - cycles * _CYCLE_DAYS)
    year = day.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{day:%m-%d}"


def clock_text(micros: int) -> tuple[str, str, str]:
    """Split wall time into its date, its time in seconds, and six digits of microseconds."""
    days, rest = divmod(micros, DAY_MICROS)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return date_text(days), clock, f"{fraction:06}"


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in ("Z", "z", "UTC"):
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
