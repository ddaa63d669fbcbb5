"""Head of a text file: its columns, their inferred types, and the first lines as values.

A type is inferred if every value of the head has it. Only the head is read, so the file cannot be a
decompression bomb.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from engine.commands.sources import FileSource
from engine.errors import CannotEvaluateError, RequestError
from engine.expressions.arrow_cast import arrow_type, convert
from engine.expressions.literals import parse_date, parse_timestamp
from engine.expressions.types import FLOATS, INTEGRALS
from engine.schema.text_values import parse_decimal
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.storage.text_files import (
    PROBLEM,
    RECORD,
    CsvDialect,
    TextFile,
    check_header,
    check_width,
    iter_csv,
    names_in_head,
)

HEAD_BYTES = 1024 * 1024
INFERRED_ROWS = 1000
_INFERRED_CELLS = 100_000
_FEWEST_ROWS = 20
_MAX_DEPTH = 30
_VOID = PrimitiveType("void")
_WIDE = DecimalType(38, 0)
"""The type of whole numbers over 64 bits."""
_DIGITS = PrimitiveType("digits")
"""The type of numbers with whole ones beyond `_WIDE`: they become text."""
_WIDE_LIMIT = 10**38
_LONG_DIGITS = 19  # the limit of 64 bits
_WIDE_WHOLE = re.compile(r"^[+-]?(?:0|[1-9][0-9]{0,37})\Z")
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,18})\Z")  # a leading zero indicates a code, not a number
_LONG_WHOLE = re.compile(r"[+-]?[1-9][0-9]{18,}\Z")
_FLOATING = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?\Z")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")
_ROUNDING = Context(prec=76, rounding=ROUND_HALF_UP)
_FLOAT_NAMES = frozenset({"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"})


_PYTHON_TYPES: dict[type, type] = {StructType: dict, MapType: dict, ArrayType: list}


class Misfit(Exception):  # noqa: N818 - a fault of a value, not of the program
    """A value does not fit its column's type."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of the file: its values, or why it has none."""

    values: Sequence[Any]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TextHead:
    """The first lines of a file with their columns. `is_whole`: there are no others.

    `long_numbers` are text columns of numbers, some with more digits than DOUBLE keeps.
    """

    columns: StructType
    lines: list[TextLine]
    is_whole: bool
    long_numbers: frozenset[str] = frozenset()


def csv_head(source: FileSource, head: bytes, size_bytes: int) -> TextHead:
    """Read the head of a CSV file.

    Raises:
        RequestError: it is empty, not text, not CSV, or has too many columns.
    """
    shown = source.uri.rpartition("/")[2]
    dialect = CsvDialect(source.header, source.delimiter, source.quote, source.null_text)
    text, is_whole = _whole_lines(head, size_bytes, shown, source.quote.encode())
    try:
        names = names_in_head(text, dialect, shown)
        check_header(names, shown)
        file = TextFile("", shown, len(text))
        batches = [batch for batch in iter_csv(file, dialect, names, text=text) if batch.num_rows]
    except pa.ArrowInvalid as error:
        msg = f"{shown} is not valid CSV: {error}."
        raise RequestError(
            msg, "Check the delimiter and the quote character.", field="delimiter"
        ) from error
    lines = _sort_lines(batches, _row_limit(len(names)))
    return _text_head(_infer_schema(names, lines), lines, is_whole=is_whole)


def json_head(source: FileSource, head: bytes, size_bytes: int) -> TextHead:
    """Read the head of a file of JSON objects, one per line.

    Raises:
        RequestError: it is empty, not text, has no object, or has too many columns.
    """
    shown = source.uri.rpartition("/")[2]
    text, is_whole = _whole_lines(head, size_bytes, shown, b"")
    texts = (line for line in text.split(b"\n") if line.strip())
    values = [_object(line) for line in islice(texts, INFERRED_ROWS)]
    rows = [value for value in values if value is not None]
    if not rows:
        msg = f"{shown} has no JSON object in its first lines."
        raise RequestError(msg, "Send JSON Lines, with one object on each line.", field="file")
    merged: DataType = _VOID
    for row in rows:
        merged = _common(merged, _json_type(row, 0))
        if isinstance(merged, StructType):
            check_width(len(merged), shown)
    assert isinstance(merged, StructType)  # noqa: S101 - merged from objects
    lines = [
        TextLine([value.get(name) for name in merged.names])
        if value is not None
        else TextLine([None] * len(merged), "not a JSON object")
        for value in values
    ]
    return _text_head(merged, lines, is_whole=is_whole)


def _text_head(columns: StructType, lines: list[TextLine], *, is_whole: bool) -> TextHead:
    settled = StructType(tuple(StructField(f.name, _default_type(f.type)) for f in columns))
    long_numbers = frozenset(field.name for field in columns if _has_digits(field.type))
    return TextHead(settled, lines, is_whole, long_numbers)


def text_value(text: str | None, kind: DataType) -> str | None:
    """Render a CSV value as its column would show it.

    Raises:
        Misfit: it is not a value of the type.
    """
    if (
        text is None
        or kind in (STRING, BINARY)
        or isinstance(kind, StructType | ArrayType | MapType)
    ):
        return text
    if isinstance(kind, DecimalType):
        return _decimal_text(text, kind)
    try:
        value = convert(pa.scalar(text), STRING, DOUBLE if kind == FLOAT else kind)
        return str(pa.array([value.as_py()], arrow_type(kind)).cast(pa.string())[0].as_py())
    except (CannotEvaluateError, pa.ArrowException, OverflowError, ValueError) as error:
        raise Misfit from error


def json_value(value: Any, kind: DataType) -> str | None:  # noqa: ANN401 - JSON
    """Render a JSON value as its column would show it, by the rules of Spark's `from_json`.

    Raises:
        Misfit: it is not a value of the type.
    """
    if value is None:
        return None
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if not _is_of(value, kind):
        raise Misfit
    return text_value(shown, kind) if not isinstance(value, dict | list) else shown


def _is_of(value: Any, kind: DataType) -> bool:  # noqa: ANN401 - JSON
    """Return whether Spark may read a JSON value as this type."""
    if kind == STRING:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in FLOATS:
        return is_number or (isinstance(value, str) and value in _FLOAT_NAMES)
    if kind in INTEGRALS:
        return is_number and isinstance(value, int)
    if isinstance(kind, DecimalType):
        return is_number or isinstance(value, str)
    return isinstance(value, _PYTHON_TYPES.get(type(kind), bool if kind == BOOLEAN else str))


def _decimal_text(text: str, kind: DecimalType) -> str:
    number = parse_decimal(text)
    if number is None:
        raise Misfit
    try:
        stored = number.quantize(Decimal(1).scaleb(-kind.scale), context=_ROUNDING)
    except InvalidOperation as error:
        raise Misfit from error
    if len(stored.as_tuple().digits) > kind.precision and stored:
        raise Misfit
    return format(stored, "f")


def _whole_lines(head: bytes, size_bytes: int, shown: str, quote: bytes) -> tuple[bytes, bool]:
    """Return the complete lines of the head, and whether they are the whole file."""
    is_whole = len(head) >= size_bytes
    end = len(head)
    while not is_whole:
        end = head.rfind(b"\n", 0, end)
        if end < 0:
            msg = f"The first line of {shown} is longer than {HEAD_BYTES // 1024:,} KiB."
            raise RequestError(msg, "Check that it is text with line breaks.", field="file")
        if not quote or head.count(quote, 0, end) % 2 == 0:
            break
    text = head if is_whole else head[: end + 1]
    if not text.strip():
        msg = f"{shown} has no rows."
        raise RequestError(msg, "Send a file that has rows.", field="file")
    if b"\0" in text:
        msg = f"{shown} is not UTF-8 text: it contains NUL bytes, as UTF-16 and binary files do."
        raise RequestError(msg, "Save it as UTF-8.", field="file")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"{shown} is not UTF-8 text: byte {error.start + 1:,} is 0x{text[error.start]:02X}."
        raise RequestError(msg, "Save it as UTF-8.", field="file") from error
    return text, is_whole


def _row_limit(columns: int) -> int:
    return min(INFERRED_ROWS, max(_FEWEST_ROWS, _INFERRED_CELLS // max(columns, 1)))


def _sort_lines(batches: Sequence[pa.RecordBatch], limit: int) -> list[TextLine]:
    """Sort records in file order, since Arrow's skipped ones come last."""
    numbered: list[tuple[int, TextLine]] = []
    for batch in batches:
        some = batch.slice(0, limit)
        numbers, problems = some.column(RECORD).to_pylist(), some.column(PROBLEM).to_pylist()
        rows = zip(*(column.to_pylist() for column in some.columns[:-3]), strict=True)
        numbered += [
            (number, TextLine(row, problem or ""))
            for number, problem, row in zip(numbers, problems, rows, strict=True)
        ]
    return [line for _, line in sorted(numbered, key=lambda pair: pair[0])[:limit]]


def _infer_schema(names: Sequence[str], lines: Sequence[TextLine]) -> StructType:
    good = [line.values for line in lines if not line.problem]
    columns = zip(*good, strict=True) if good else [()] * len(names)
    return StructType(
        tuple(
            StructField(name, _type_of_texts([text for text in column if text is not None]))
            for name, column in zip(names, columns, strict=True)
        )
    )


def _type_of_texts(texts: Sequence[str]) -> DataType:
    """Return the narrowest type of all texts; STRING without any."""
    for kind, is_one in _TEXT_TYPES if texts else ():
        if all(map(is_one, texts)):
            return _DIGITS if kind == DOUBLE and any(map(_is_long_whole, texts)) else kind
    return STRING


_TEXT_TYPES: tuple[tuple[DataType, Callable[[str], bool]], ...] = (
    (LONG, lambda text: bool(_WHOLE.match(text)) and -(2**63) <= int(text) < 2**63),
    (_WIDE, lambda text: bool(_WIDE_WHOLE.match(text))),
    (DOUBLE, lambda text: bool(_FLOATING.match(text)) and any(c.isdigit() for c in text)),
    (BOOLEAN, lambda text: text.lower() in {"true", "false"}),
    (DATE, lambda text: bool(_DAY.match(text)) and parse_date(text) is not None),
    (TIMESTAMP, lambda text: bool(_MOMENT.match(text)) and parse_timestamp(text) is not None),
)


def _is_long_whole(text: str) -> bool:
    """Return whether a whole number exceeds 64 bits; `int` refuses texts of thousands of digits."""
    if not _LONG_WHOLE.match(text):
        return False
    return len(text.lstrip("+-")) > _LONG_DIGITS or not -(2**63) <= int(text) < 2**63


def _is_wide(number: int) -> bool:
    """Return whether it fits 38 digits: a double would change an id of twenty digits."""
    return abs(number) < _WIDE_LIMIT


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json_type(value: Any, depth: int) -> DataType:  # noqa: ANN401, PLR0911 - a type for each
    match value:
        case None:
            return _VOID
        case bool():
            return BOOLEAN
        case int():
            if -(2**63) <= value < 2**63:
                return LONG
            return _WIDE if _is_wide(value) else _DIGITS
        case float():
            return DOUBLE
        case dict() if depth < _MAX_DEPTH:
            fields = (StructField(name, _json_type(v, depth + 1)) for name, v in value.items())
            return StructType(tuple(fields))
        case list() if depth < _MAX_DEPTH:
            return ArrayType(_all_common(_json_type(item, depth + 1) for item in value))
        case _:
            return STRING


def _all_common(types: Iterable[DataType]) -> DataType:
    merged: DataType = _VOID
    for kind in types:
        merged = _common(merged, kind)
    return merged


def _common(one: DataType, other: DataType) -> DataType:
    """Return the common JSON type, widened as in Spark's reader: text as a last resort."""
    if one in (other, _VOID) or other == _VOID:
        return other if one == _VOID else one
    match one, other:
        case StructType(), StructType():
            fields = {field.name: field for field in one}
            for field in other:
                before = fields.get(field.name)
                kind = _common(before.type, field.type) if before else field.type
                fields[field.name] = StructField(field.name, kind)
            return StructType(tuple(fields.values()))
        case ArrayType(left), ArrayType(right):
            return ArrayType(_common(left, right))
        case _:
            return _common_number({one, other})


def _common_number(kinds: set[DataType]) -> DataType:
    if kinds == {LONG, _WIDE}:
        return _WIDE
    if kinds == {LONG, DOUBLE}:
        return DOUBLE
    return _DIGITS if kinds <= {LONG, _WIDE, DOUBLE, _DIGITS} else STRING


def _has_digits(kind: DataType) -> bool:
    match kind:
        case StructType(fields):
            return any(_has_digits(field.type) for field in fields)
        case ArrayType(element):
            return _has_digits(element)
        case _:
            return kind == _DIGITS


def _default_type(kind: DataType) -> DataType:
    """Return STRING for a type without values, such as an empty object."""
    match kind:
        case StructType(fields) if fields:
            return StructType(tuple(StructField(f.name, _default_type(f.type)) for f in fields))
        case ArrayType(element):
            return ArrayType(_default_type(element))
        case _:
            return STRING if kind in (_VOID, _DIGITS) or isinstance(kind, StructType) else kind
