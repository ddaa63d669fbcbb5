"""Statistics of a file as claimed by its log (protocol: Per-file Statistics).

They come from many writers. They may exclude a file from a read; they never prove that a file is
empty, that no row is left, or that a row id is free. Text other than a JSON object counts as no
statistics, and so does each value of another type than its field's.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

_EXACT = msgspec.json.Decoder(float_hook=Decimal)
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])  # keep the digits of bounds
_MOST_ROWS = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LOST_SECONDS = timedelta(seconds=59)
_OFFSET = re.compile(r":\d\d(\.\d*)?[+-]\d\d:?\d\d$")
MALFORMED = (ValueError, ArithmeticError, RecursionError)
"""Errors raised when text is not valid statistics."""


class _RowCount(msgspec.Struct, rename="camel"):
    num_records: Any = None


_ROW_COUNT = msgspec.json.Decoder(_RowCount, float_hook=Decimal)


def parse_stats(text: str | None) -> dict[str, Any] | None:
    """Return statistics as a dict, numbers exact; None if there are none."""
    if not text:
        return None
    try:
        stats = _EXACT.decode(text)
    except MALFORMED:
        return None
    return stats if isinstance(stats, dict) else None


def read_claimed_rows(stats: str | None) -> int | None:
    """Return the `numRecords` of statistics; None if it is missing or invalid."""
    if not stats:
        return None
    try:
        return parse_row_count(_ROW_COUNT.decode(stats).num_records)
    except MALFORMED:
        return None


def parse_row_count(value: object) -> int | None:
    """Return the value if it is a valid number of rows, else None."""
    return value if type(value) is int and 0 <= value <= _MOST_ROWS else None


def may_lack_seconds(bound: str) -> bool:
    """Return whether the offset of a timestamp's zone may lack its seconds.

    Delta 3.2 and 3.3 write offsets as hours and minutes. Local mean time, last used by a zone in
    1972, has seconds too.
    """
    year = bound[:4]
    return _OFFSET.search(bound) is not None and not (year.isdigit() and year > "1972")


def least_moment(moment: datetime, bound: str) -> datetime | None:
    """Return a moment at or below all values behind a minimum's text; None if out of range."""
    error = _LOST_SECONDS if may_lack_seconds(bound) else timedelta()
    if moment <= _EPOCH.replace(tzinfo=moment.tzinfo):
        error += _MILLISECOND  # some writers truncate toward 1970
    return _shift_time(moment, -error)


def greatest_moment(moment: datetime, bound: str) -> datetime | None:
    """Return a moment at or above all values behind a maximum's text; None if out of range."""
    error = _LOST_SECONDS if may_lack_seconds(bound) else timedelta()
    return _shift_time(moment, error + _MILLISECOND)  # texts are truncated to milliseconds


def _shift_time(moment: datetime, by: timedelta) -> datetime | None:
    try:
        return moment + by
    except OverflowError:
        return None


def loosen_bounds(stats: str | None, row_count: int | None = None) -> str | None:
    """Return the statistics of a file with a new deletion vector: `tightBounds` is false.

    `row_count` replaces their number of rows. Empty statistics become None.
    """
    parts = _parts(stats) if row_count is None else {**_parts(stats), "numRecords": row_count}
    return msgspec.json.encode({**parts, "tightBounds": False}).decode() if parts else None


def add_row_count(stats: str | None, row_count: int) -> str:
    """Set the number of rows in statistics; return the text unchanged if it has it already."""
    if stats is not None and read_claimed_rows(stats) == row_count:
        return stats
    return msgspec.json.encode({**_parts(stats), "numRecords": row_count}).decode()


def _parts(stats: str | None) -> dict[str, Any]:
    """Return the parts as their texts: numbers of 38 digits are bounds too."""
    try:
        return dict(_RAW.decode(stats)) if stats else {}
    except MALFORMED:
        return {}
