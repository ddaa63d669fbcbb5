"""Values of a log, made fit for a database: a log is untrusted and other engines write it too.

Values that do not fit (a number beyond 64 bits, a time beyond year 9999) become null: not recorded.
"""

import json
import math
from datetime import datetime
from typing import Any

import msgspec

from engine.clock import utc_from_ms

_INT64 = 2**63


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_stats_decoder = msgspec.json.Decoder(_Stats)


def text(value: object, limit: int | None = None) -> str:
    """Return text without characters refused by PostgreSQL (NUL, lone surrogates), cut."""
    if value is None:
        return ""
    if type(value) is str and value.isascii() and "\0" not in value:  # nearly every text
        return value[:limit]
    clean = str(value).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode("utf-8")[:limit]


def is_clean(document: bytes) -> bool:
    """Whether every text in a JSON document fits unchanged: ASCII, without escaped code points."""
    return document.isascii() and b"\\u" not in document and b"\0" not in document


def integer(value: object) -> int | None:
    """Return a 64-bit integer, or None."""
    return value if type(value) is int and -_INT64 <= value < _INT64 else None


def moment(epoch_ms: object) -> datetime | None:
    """Return the UTC time of milliseconds since the epoch, or None."""
    number = integer(epoch_ms)
    try:
        return None if number is None else utc_from_ms(number)
    except (OverflowError, ValueError, OSError):
        return None


def json_value(value: object, *, is_clean: bool = False) -> object:
    """Return JSON with fitting texts and numbers. `is_clean`: its texts fit already."""
    if is_clean and isinstance(value, dict) and all(type(v) is str for v in value.values()):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    return value if _is_plain(value) else text(value)


def row_count(stats: str | None) -> int | None:
    """Return `numRecords` of a file's statistics, or None without it."""
    if not stats:
        return None
    try:
        number = integer(_stats_decoder.decode(stats).num_records)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError):
        return None
    return number if number is not None and number >= 0 else None


def predicate(parameters: dict[str, Any] | None) -> str:
    """Return the condition in `operationParameters`: a JSON list of texts, or plain text."""
    value = (parameters or {}).get("predicate")
    if value is None:
        return ""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return text(value)
    if isinstance(parsed, list):
        return text(" AND ".join(str(part) for part in parsed))
    return text(parsed)


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool) or integer(value) is not None
