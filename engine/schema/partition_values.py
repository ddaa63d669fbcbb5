"""Partition values: text in the log ↔ typed values, and the names of partition directories.

Protocol: Partition Value Serialization. Both null and "" mean null. In Arrow, every year that files
can store is represented.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from engine.errors import MalformedLogError, RequestError
from engine.schema.arrow import to_arrow_type
from engine.schema.civil_time import clock_text, date_text, days_of, micros_of
from engine.schema.text_values import parse_boolean, parse_decimal, parse_double, parse_whole_number
from engine.schema.types import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    type_to_json,
)

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}
_LONGEST_NAME = 255  # bytes
_DIGITS = Context(prec=38, rounding=ROUND_HALF_UP)  # Python's default is 28
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall clock of timestamps without zone
_EPOCH_DAY = date(1970, 1, 1)
_REMEDY = "Repair the log with the engine that wrote it."

MOMENTS = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})


class YearOutOfRangeError(MalformedLogError, code="LAKE_YEAR_OUT_OF_RANGE", sqlstate="22008"):
    """A date or a time outside the years 1 to 9999, where Python's calendar ends.

    Such values are read and written; they are not compared with anything, nor made Python's.
    """


def partition_fields(schema: StructType, names: Sequence[str]) -> tuple[StructField, ...]:
    """Return a table's partition columns.

    Raises:
        MalformedLogError: the schema lacks one, or spells it differently, so its name in files is
            unknown.
    """
    fields = [schema.get(name) for name in names]
    missing = [name for name, field in zip(names, fields, strict=True) if field is None]
    if missing:
        msg = f"The table's schema lacks the partition columns {', '.join(missing)}."
        raise MalformedLogError(msg, _REMEDY)
    present = tuple(field for field in fields if field is not None)
    for name, field in zip(names, present, strict=True):
        if name != field.name:
            msg = f"The partition column {name} is spelled {field.name} in the table's schema."
            raise MalformedLogError(msg, _REMEDY)
    return present


def partition_text(values: Mapping[str, str | None], name: str) -> str | None:
    """Return a file's value for a partition column's physical name; null if there is none.

    Raises:
        MalformedLogError: the file's name for it differs in case.
    """
    if name in values:
        return values[name]
    check_spelling(values, name)
    return None


def check_spelling(keys: Iterable[str], name: str) -> None:
    """Check that no key differs from a partition column's physical name only in case.

    Raises:
        MalformedLogError: one does.
    """
    other = next((key for key in keys if key != name and key.lower() == name.lower()), None)
    if other is not None:
        msg = (
            f"A file has a partition value for {other}, but the table's partition column is {name}."
        )
        raise MalformedLogError(msg, _REMEDY)


def parse_partition_value(text: str | None, data_type: DataType) -> Any:  # noqa: ANN401 - any value
    """Parse a partition value to Python; timestamps without zone are naive, others UTC.

    Raises:
        MalformedLogError: the text is not a value of the type.
        YearOutOfRangeError: the year is outside Python's calendar.
    """
    number = parse_stored_value(text, data_type)
    if number is None or data_type not in MOMENTS:
        return number
    try:
        if data_type == DATE:
            return _EPOCH_DAY + timedelta(days=number)
        moment = _EPOCH + timedelta(microseconds=number)
    except OverflowError as error:
        msg = f"The partition value {text!r} is outside the years 1 to 9999."
        remedy = "Exclude the partition with a condition on another column, or rewrite it."
        raise YearOutOfRangeError(msg, remedy) from error
    return moment.replace(tzinfo=UTC) if data_type == TIMESTAMP else moment


def parse_stored_value(text: str | None, data_type: DataType) -> Any:  # noqa: ANN401 - any value
    """Parse a partition value as stored in files: days or microseconds since 1970, else Python's.

    Raises:
        MalformedLogError: the text is not a value of the type.
    """
    if text is None or text == "":
        return None
    try:
        if isinstance(data_type, DecimalType):
            return _parse_decimal(text, data_type)
        if isinstance(data_type, PrimitiveType):
            return _PARSERS[data_type.name](text)
    except (ValueError, KeyError, OverflowError, InvalidOperation) as error:
        msg = f"The partition value {text[:200]!r} is not a {type_to_json(data_type)}."
        raise MalformedLogError(msg, _REMEDY) from error
    msg = f"A {type(data_type).__name__} cannot be a partition column."
    raise MalformedLogError(msg, _REMEDY)


def format_partition_value(value: Any, data_type: DataType) -> str | None:  # noqa: ANN401 - any value
    """Format a value as the log's text; an empty string becomes null, as in the protocol.

    Raises:
        RequestError: bytes are not text: neither the log nor a directory name can hold them.
    """
    match value:
        case None | "":
            return None
        case bool():
            text = "true" if value else "false"
        case bytes():
            text = _text_of(value)
        case datetime():
            zoned = value.tzinfo is not None and data_type != TIMESTAMP_NTZ
            wall = value if zoned else value.replace(tzinfo=None)
            text = format_stored_moment(epoch_micros(wall), TIMESTAMP if zoned else TIMESTAMP_NTZ)
        case float():
            text = _format_float(value)
        case Decimal():
            text = format(value, "f")
        case _:
            text = str(value)
    return text


def format_stored_moment(number: int, data_type: DataType) -> str:
    """Format a stored date or timestamp of any year as the log's text."""
    if data_type == DATE:
        return date_text(number)
    day, time, fraction = clock_text(number)
    if data_type == TIMESTAMP:
        return f"{day}T{time}.{fraction}Z"
    return f"{day} {time}.{fraction}" if int(fraction) else f"{day} {time}"


def escape_path_name(name: str) -> str:
    """Escape a column name or value for a directory name, as Hive and Spark do."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def partition_directory(values: Mapping[str, str | None], columns: Sequence[str]) -> str:
    """Return the directory of a partition, `a=1/b=2`, on disk (not percent-encoded for the log)."""
    parts = []
    for column in columns:
        value = values.get(column)
        shown = NULL_DIRECTORY if value is None or value == "" else escape_path_name(value)
        parts.append(f"{escape_path_name(column)}={shown}")
    return "/".join(parts)


def data_directory(values: Mapping[str, str | None], columns: Sequence[str]) -> str:
    """Return the directory for a partition's data files, with names cut to file system limits.

    The values are in the log, so partitions may share a directory.
    """
    names = partition_directory(values, columns).split("/")
    return "/".join(name.encode()[:_LONGEST_NAME].decode(errors="ignore") for name in names)


def epoch_micros(value: datetime) -> int:
    """Return microseconds since 1970 of a moment (in UTC) or of a wall clock without zone."""
    wall = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (wall - _EPOCH) // timedelta(microseconds=1)


def _parse_decimal(text: str, data_type: DecimalType) -> Decimal:
    value = parse_decimal(text)
    if value is None:
        raise InvalidOperation
    rounded = value.quantize(Decimal(1).scaleb(-data_type.scale), context=_DIGITS)
    if rounded.copy_abs() >= Decimal(1).scaleb(data_type.precision - data_type.scale):
        raise OverflowError(text)
    return rounded


def _parse_integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = parse_whole_number(text)
        if number is None:
            raise ValueError(text)
        return _check_bits(number, bits)

    return parse


def _check_bits(value: int, bits: int) -> int:
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise OverflowError(value)
    return value


def _parse_boolean(text: str) -> bool:
    truth = parse_boolean(text)
    if truth is None:
        raise ValueError(text)
    return truth


def _parse_float(text: str) -> float:
    number = parse_double(text)
    if number is None:
        raise ValueError(text)
    return number


def _text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        msg = (
            f"The BINARY value X'{value[:20].hex()}' is not valid UTF-8, so it cannot be a "
            "partition value."
        )
        remedy = "Partition by another column, or by a column with its hex() or base64() value."
        raise RequestError(msg, remedy, field="partition_columns") from error


def _format_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _parse_binary(text: str) -> bytes:
    return text.encode()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "long": _parse_integer(64),
    "integer": _parse_integer(32),
    "short": _parse_integer(16),
    "byte": _parse_integer(8),
    "float": _parse_float,
    "double": _parse_float,
    "boolean": _parse_boolean,
    "binary": _parse_binary,
    "date": lambda text: _check_bits(days_of(text), 32),
    "timestamp": lambda text: _check_bits(micros_of(text, zoned=True), 64),
    "timestamp_ntz": lambda text: _check_bits(micros_of(text, zoned=False), 64),
}


def partition_array(texts: Sequence[str | None], data_type: DataType) -> pa.Array:
    """Convert the log's texts to values.

    Raises:
        MalformedLogError: a text is not a value of the type.
    """
    values = [parse_stored_value(text, data_type) for text in texts]
    kind = to_arrow_type(data_type)
    if data_type not in MOMENTS:
        return pa.array(values, kind)
    return pa.array(values, _number(data_type)).view(kind)


def partition_scalar(text: str | None, data_type: DataType) -> pa.Scalar:
    """Convert one text of the log to a value; raise errors like `partition_array`."""
    return partition_array([text], data_type)[0]


def partition_text_at(column: pa.Array, row: int, data_type: DataType) -> str | None:
    """Format the value in a row as the log's text."""
    value = column[row]
    if data_type not in MOMENTS:
        return format_partition_value(value.as_py(), data_type)
    stored = value.cast(to_arrow_type(data_type)).cast(_number(data_type)).as_py()
    return None if stored is None else format_stored_moment(stored, data_type)


def _number(data_type: DataType) -> pa.DataType:
    return pa.int32() if data_type == DATE else pa.int64()
