"""Partition values: text in the log ↔ typed values, and the names of partition directories.

Protocol: Partition Value Serialization. Both null and "" mean null.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from engine.errors import MalformedLogError
from engine.schema.types import DataType, DecimalType, PrimitiveType

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}
_TIMESTAMP = re.compile(
    r"^(?P<date>[+-]?\d{1,6}-\d{1,2}-\d{1,2})"
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?$"
)
_DIGITS = Context(prec=38, rounding=ROUND_HALF_UP)  # Python keeps 28 unless told
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall clock of timestamps without zone


def parse_partition_value(text: str | None, data_type: DataType) -> Any:  # noqa: ANN401 - any value
    """The Python value of a partition value; timestamps without zone are naive, others UTC.

    Raises:
        MalformedLogError: the text is no value of the type.
    """
    if text is None or text == "":
        return None
    try:
        if isinstance(data_type, DecimalType):
            return _parse_decimal(text, data_type)
        if isinstance(data_type, PrimitiveType):
            return _PARSERS[data_type.name](text)
    except (ValueError, KeyError, OverflowError, InvalidOperation) as error:
        msg = f"The partition value {text[:200]!r} is not a {_name(data_type)}."
        raise MalformedLogError(msg, "Repair the log with the engine that wrote it.") from error
    msg = f"A {type(data_type).__name__} cannot be a partition column."
    raise MalformedLogError(msg, "Repair the log with the engine that wrote it.")


def format_partition_value(value: Any, data_type: DataType) -> str | None:  # noqa: ANN401 - any value
    """The log's text of a value. An empty string becomes null, as the protocol has it."""
    match value:
        case None | "":
            return None
        case bool():
            text = "true" if value else "false"
        case bytes():
            text = value.decode("utf-8", "surrogateescape")
        case datetime():
            text = _format_timestamp(value, data_type)
        case float():
            text = _format_float(value)
        case Decimal():
            text = format(value, "f")
        case _:
            text = str(value)
    return text


def escape_path_name(name: str) -> str:
    """A column name or value as part of a directory's name, as Hive and Spark escape it."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def partition_directory(values: Mapping[str, str | None], columns: Sequence[str]) -> str:
    """The directory of a partition, `a=1/b=2`, on disk (not yet percent-encoded for the log)."""
    parts = []
    for column in columns:
        value = values.get(column)
        shown = NULL_DIRECTORY if value is None or value == "" else escape_path_name(value)
        parts.append(f"{escape_path_name(column)}={shown}")
    return "/".join(parts)


def epoch_micros(value: datetime) -> int:
    """Microseconds since 1970 of a moment (in UTC), or of a wall clock without zone."""
    wall = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (wall - _EPOCH) // timedelta(microseconds=1)


def _parse_decimal(text: str, data_type: DecimalType) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise InvalidOperation
    return value.quantize(Decimal(1).scaleb(-data_type.scale), context=_DIGITS)


def _parse_integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if re.fullmatch(r"\s*[+-]?\d{1,20}\s*", text) is None:
            raise ValueError(text)
        value = int(text)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise OverflowError(text)
        return value

    return parse


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _parse_date(text: str) -> date:
    year, month, day = (int(part) for part in text.strip()[:10].split("-"))
    return date(year, month, day)


def _parse_timestamp(text: str) -> datetime:
    """UTC; a text without a zone is taken as UTC."""
    moment, offset = _wall_clock(text)
    return (moment - offset).replace(tzinfo=UTC)


def _parse_timestamp_ntz(text: str) -> datetime:
    return _wall_clock(text)[0]


def _wall_clock(text: str) -> tuple[datetime, timedelta]:
    match = _TIMESTAMP.match(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day = (int(part) for part in match["date"].split("-"))
    micros = int((match["fraction"] or "0").ljust(9, "0")) // 1000
    moment = datetime(  # noqa: DTZ001 - the zone is applied by the caller
        year,
        month,
        day,
        int(match["hour"] or 0),
        int(match["minute"] or 0),
        int(match["second"] or 0),
        micros,
    )
    return moment, _offset(match["zone"])


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in ("Z", "UTC"):
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))


def _format_timestamp(value: datetime, data_type: DataType) -> str:
    if value.tzinfo is not None and data_type != PrimitiveType("timestamp_ntz"):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    wall = value.replace(tzinfo=None)
    return wall.isoformat(sep=" ", timespec="microseconds" if wall.microsecond else "seconds")


def _format_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _parse_binary(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _name(data_type: DataType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else str(data_type)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "long": _parse_integer(64),
    "integer": _parse_integer(32),
    "short": _parse_integer(16),
    "byte": _parse_integer(8),
    "float": float,
    "double": float,
    "boolean": _parse_boolean,
    "binary": _parse_binary,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
}
