"""Functions of text, numbers and nulls over Arrow values, where they can be exact."""

import hashlib
import zlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.arrow_cast import Value, arrow_type, convert, inexact, rowwise
from engine.expressions.arrow_operators import (
    DATE_OPERATIONS,
    OPERATIONS,
    Operation,
    less,
    together,
)
from engine.expressions.types import FLOATS
from engine.schema.types import BOOLEAN, LONG, STRING, DataType, MapType

_MOST_CHARACTERS = 2**31 - 1
"""The length of a SUBSTRING without one, which may be shorter than the text."""


def _text(function: Callable[..., Any], target: pa.DataType | None = None) -> Operation:
    def run(values: list[Value], _: list[DataType], result: DataType) -> Value:
        return rowwise(function, values, target or arrow_type(result))

    return run


def _ascii_case(function: Callable[[Value], Value]) -> Operation:
    def run(values: list[Value], types: list[DataType], result: DataType) -> Value:
        value = convert(values[0], types[0], result)
        ascii_only = pc.string_is_ascii(value)
        if (
            pc.min_max(
                pa.array([ascii_only.as_py()]) if isinstance(value, pa.Scalar) else ascii_only
            )["min"].as_py()
            is False
        ):
            inexact("upper and lower case beyond ASCII")
        return function(value)

    return run


def _strip(function: Callable[..., Value]) -> Operation:
    def run(values: list[Value], types: list[DataType], result: DataType) -> Value:
        return function(convert(values[0], types[0], result), characters=" ")

    return run


def _holds(vectorized: Callable[..., Value], one_by_one: Callable[[str, str], bool]) -> Operation:
    """Build a test for a part of a text, vectorized for a literal part."""

    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        text, part = (convert(v, t, STRING) for v, t in zip(values, types, strict=True))
        if isinstance(part, pa.Scalar) and part.is_valid and not isinstance(text, pa.Scalar):
            return vectorized(text, part.as_py())
        return rowwise(one_by_one, [text, part], pa.bool_())

    return run


def _concat(values: list[Value], types: list[DataType], _: DataType) -> Value:
    texts = [convert(v, t, STRING) for v, t in zip(values, types, strict=True)]
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def substring(text: str, start: int, length: int = _MOST_CHARACTERS) -> str:
    """Evaluate Spark's SUBSTRING: positions count from 1, negative ones from the end."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = begin + length
    return text[max(begin, 0) : max(end, 0)] if end > begin else ""


def _pad(*, left: bool) -> Callable[..., str]:
    def run(text: str, length: int, fill: str = " ") -> str:
        missing = length - len(text)
        if missing <= 0 or not fill:
            return text[: max(length, 0)] if missing <= 0 else text
        padding = (fill * missing)[:missing]
        return padding + text if left else text + padding

    return run


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _octets(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _sha2(value: str | bytes, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return hashlib.new(name, _octets(value)).hexdigest() if name else None


def _replace(text: str, search: str, replacement: str = "") -> str:
    return text.replace(search, replacement) if search else text


def _is_null(values: list[Value], _: list[DataType], __: DataType) -> Value:
    return pc.is_null(values[0])


def _coalesce(values: list[Value], types: list[DataType], result: DataType) -> Value:
    return pc.coalesce(*(convert(v, t, result) for v, t in zip(values, types, strict=True)))


def _nvl2(values: list[Value], types: list[DataType], result: DataType) -> Value:
    return _case([pc.is_valid(values[0]), *values[1:]], [BOOLEAN, *types[1:]], result)


def _case(values: list[Value], types: list[DataType], result: DataType) -> Value:
    pairs = len(values) // 2 * 2
    chosen = (
        convert(values[-1], types[-1], result)
        if pairs < len(values)
        else pa.scalar(None, arrow_type(result))
    )
    for index in reversed(range(0, pairs, 2)):
        condition = pc.coalesce(convert(values[index], types[index], BOOLEAN), pa.scalar(False))
        chosen = pc.if_else(condition, convert(values[index + 1], types[index + 1], result), chosen)
    return chosen


def _nullif(values: list[Value], types: list[DataType], result: DataType) -> Value:
    same = OPERATIONS["="](values, types, BOOLEAN)
    same = pc.coalesce(same, pa.scalar(False))
    return pc.if_else(same, pa.scalar(None, arrow_type(result)), values[0])


def _extreme(*, greatest: bool) -> Operation:
    def pick(data_type: DataType) -> Callable[[Value, Value], Value]:
        def run(left: Value, right: Value) -> Value:
            later = less(left, right, data_type) if greatest else less(right, left, data_type)
            return pc.if_else(pc.coalesce(later, pc.is_null(left)), right, left)

        return run

    def run(values: list[Value], types: list[DataType], result: DataType) -> Value:
        _, common = together(values, types)
        converted = [convert(v, t, result) for v, t in zip(values, types, strict=True)]
        return reduce(pick(common), converted)

    return run


def _is_nan(values: list[Value], _: list[DataType], __: DataType) -> Value:
    return pc.coalesce(pc.is_nan(values[0]), pa.scalar(False))


def _absolute(values: list[Value], types: list[DataType], _: DataType) -> Value:
    return pc.abs(values[0]) if types[0] in FLOATS else pc.abs_checked(values[0])


def _whole(function: Callable[[Value], Value]) -> Operation:
    def run(values: list[Value], types: list[DataType], _: DataType) -> Value:
        rounded = function(values[0]) if types[0] in FLOATS else values[0]
        return pc.cast(rounded, arrow_type(LONG))

    return run


def _round(values: list[Value], types: list[DataType], _: DataType) -> Value:
    if types[0] in FLOATS or len(values) > 1:
        inexact("the rounding of fractions")
    return values[0]


def _split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        inexact("part 0 of a text")
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def _translate(text: str, matching: str, replacement: str) -> str:
    table: dict[int, str | None] = {}
    for index, character in enumerate(matching):
        table.setdefault(ord(character), replacement[index] if index < len(replacement) else None)
    return text.translate(table)


def _size(values: list[Value], types: list[DataType], _: DataType) -> Value:
    if isinstance(types[0], MapType):
        inexact("the size of a map")
    return pc.cast(pc.list_value_length(values[0]), pa.int32())


FUNCTIONS_OF_ARROW: dict[str, Operation] = {
    **OPERATIONS,
    **DATE_OPERATIONS,
    "lower": _ascii_case(pc.ascii_lower),
    "upper": _ascii_case(pc.ascii_upper),
    "trim": _strip(pc.utf8_trim),
    "ltrim": _strip(pc.utf8_ltrim),
    "rtrim": _strip(pc.utf8_rtrim),
    "length": _text(len),
    "octet_length": _text(lambda value: len(_octets(value))),
    "substring": _text(substring),
    "left": _text(lambda text, length: text[: max(length, 0)]),
    "right": _text(_right),
    "startswith": _holds(pc.starts_with, str.startswith),
    "endswith": _holds(pc.ends_with, str.endswith),
    "contains": _holds(pc.match_substring, lambda text, part: part in text),
    "instr": _text(lambda text, part: text.find(part) + 1),
    "concat": _concat,
    "replace": _text(_replace),
    "lpad": _text(_pad(left=True)),
    "rpad": _text(_pad(left=False)),
    "md5": _text(lambda value: hashlib.md5(_octets(value), usedforsecurity=False).hexdigest()),
    "sha1": _text(lambda value: hashlib.sha1(_octets(value), usedforsecurity=False).hexdigest()),
    "sha2": _text(_sha2),
    "crc32": _text(lambda value: zlib.crc32(_octets(value))),
    "abs": _absolute,
    "ceil": _whole(pc.ceil),
    "floor": _whole(pc.floor),
    "isnan": _is_nan,
    "isnull": _is_null,
    "isnotnull": lambda values, _, __: pc.is_valid(values[0]),
    "coalesce": _coalesce,
    "if": _case,
    "nvl2": _nvl2,
    "case": _case,
    "nullif": _nullif,
    "greatest": _extreme(greatest=True),
    "least": _extreme(greatest=False),
    "size": _size,
    "round": _round,
    "split_part": _text(_split_part),
    "translate": _text(_translate),
    "reverse": _text(lambda text: text[::-1]),
    "ascii": _text(lambda text: ord(text[0]) if text else 0),
}
"""Functions missing here raise `CannotEvaluateError` and are left to Spark."""
