"""Casts of Arrow values as in Spark's ANSI mode, where they can be exact.

Values are arrays or scalars of the canonical Arrow type of a Delta type. The session's time zone
is UTC. A value Spark would refuse, or Arrow may round differently, raises `CannotEvaluateError`.
"""

from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import CannotEvaluateError
from engine.expressions.literals import parse_date, parse_timestamp
from engine.expressions.tree import VOID
from engine.expressions.types import FLOATS, INTEGRALS, TIMES, is_numeric, sql_name
from engine.schema.civil_time import DAY_MICROS
from engine.schema.text_values import (
    parse_boolean,
    parse_double,
    parse_float_name,
    parse_whole_number,
)
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

Value: TypeAlias = Any
"""A pyarrow Array or Scalar; their stubs do not let one signature name both."""

_DIGITS = Context(prec=38, rounding=ROUND_HALF_UP)  # Python's default is 28
_ARROW: dict[DataType, pa.DataType] = {
    STRING: pa.string(),
    LONG: pa.int64(),
    INTEGER: pa.int32(),
    SHORT: pa.int16(),
    BYTE: pa.int8(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VOID: pa.null(),
}


def arrow_type(data_type: DataType) -> pa.DataType:  # noqa: RET503
    """Return the Arrow type for evaluating values of a Delta type."""
    match data_type:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(arrow_type(element))
        case MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
        case _ if data_type in _ARROW:
            return _ARROW[data_type]
        case _:
            inexact(f"a {sql_name(data_type)} value")


def inexact(what: str) -> NoReturn:
    """Raise the error for an evaluation Arrow cannot do exactly as Spark does.

    Raises:
        CannotEvaluateError: always.
    """
    msg = f"Arrow cannot evaluate {what} exactly as Spark does."
    raise CannotEvaluateError(msg)


def canonical(value: Value, data_type: DataType) -> Value:
    """Convert a column of a file or table to its Arrow type for evaluation."""
    target = arrow_type(data_type)
    if value.type == target:
        return value
    if pa.types.is_dictionary(value.type):
        value = value.dictionary_decode()
    if pa.types.is_timestamp(value.type) and data_type in {TIMESTAMP, TIMESTAMP_NTZ}:
        return pc.cast(value, pa.timestamp("us", value.type.tz)).cast(pa.int64()).cast(target)
    return pc.cast(value, target)


def convert(value: Value, source: DataType, target: DataType) -> Value:
    """Cast a value from one type to another, like Spark's CAST in ANSI mode.

    Raises:
        CannotEvaluateError: Spark would fail, or cast in a way Arrow does not.
    """
    if source == target:
        return value
    if source == VOID:
        return pc.cast(value, arrow_type(target))
    for applies, conversion in _CONVERSIONS:
        if applies(source, target):
            return conversion(value, source, target)
    inexact(f"a cast from {sql_name(source)} to {sql_name(target)}")


def _plain(value: Value, _: DataType, target: DataType) -> Value:
    return pc.cast(value, arrow_type(target))


def _unsafe(value: Value, _: DataType, target: DataType) -> Value:
    return pc.cast(value, arrow_type(target), safe=False)


def _truncate_number(value: Value, source: DataType, target: DataType) -> Value:
    if isinstance(source, DecimalType):
        return rowwise(lambda number: int(number), [value], arrow_type(target))
    return pc.cast(pc.trunc(value), arrow_type(target))


def _cast_to_decimal(value: Value, source: DataType, target: DataType) -> Value:
    precision, scale = target.precision, target.scale  # type: ignore[union-attr]
    if isinstance(source, DecimalType) and source.scale > scale:
        value = rowwise(
            lambda number: number.quantize(Decimal(1).scaleb(-scale), context=_DIGITS),
            [value],
            pa.decimal128(38, scale),
        )
    return pc.cast(pc.cast(value, pa.decimal256(76, scale)), pa.decimal128(precision, scale))


def _decimal_to_floating(value: Value, _: DataType, target: DataType) -> Value:
    return pc.cast(pc.cast(value, pa.string()), arrow_type(target))


def _cast_to_boolean(value: Value, _: DataType, __: DataType) -> Value:
    return pc.not_equal(value, pa.scalar(0, value.type))


def _cast_time(value: Value, source: DataType, target: DataType) -> Value:
    if target == DATE:
        return pc.cast(value, arrow_type(target), safe=False)
    if source == DATE:  # Arrow's own cast wraps around silently beyond the year 294247
        days = pc.cast(pc.cast(value, pa.int32()), pa.int64())
        return pc.cast(pc.multiply_checked(days, DAY_MICROS), arrow_type(target))
    return pc.cast(pc.cast(value, pa.int64()), arrow_type(target))


def _cast_from_string(value: Value, _: DataType, target: DataType) -> Value:
    return rowwise(lambda text: _parse_text(text, target), [value], arrow_type(target))


def _parse_text(text: str, target: DataType) -> Any:  # noqa: ANN401 - any value of any type
    result: Any = None
    if target in INTEGRALS:
        result = parse_whole_number(text)
    elif target in FLOATS:
        result = parse_double(text) if target == DOUBLE else parse_float_name(text)
    elif target == BOOLEAN:
        result = parse_boolean(text)
    elif target == DATE:
        result = parse_date(text)
    elif target in TIMES:
        result = parse_timestamp(text, zone=target == TIMESTAMP, regions=False)
    if result is None:
        inexact(f"the cast of a string to {sql_name(target)}")
    return result


def _cast_to_string(value: Value, source: DataType, _: DataType) -> Value:
    if source in INTEGRALS or source == BOOLEAN:
        return pc.cast(value, pa.string())
    return rowwise(_render_value, [value], pa.string())


def _render_value(value: Any) -> str:  # noqa: ANN401 - a decimal, date or datetime
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, date):
        return value.isoformat()
    inexact(f"a {type(value).__name__} as text")


_Applies: TypeAlias = Callable[[DataType, DataType], bool]
_CONVERSIONS: tuple[tuple[_Applies, Callable[[Value, DataType, DataType], Value]], ...] = (
    (
        lambda s, t: s == STRING and (t in INTEGRALS or t in FLOATS or t in TIMES or t == BOOLEAN),
        _cast_from_string,
    ),
    (lambda s, t: t == STRING and s not in FLOATS and s != BINARY, _cast_to_string),
    (lambda s, t: s in INTEGRALS and t in INTEGRALS, _plain),
    (lambda s, t: s == BOOLEAN and (t in INTEGRALS or t in FLOATS), _plain),
    (lambda s, t: (s in INTEGRALS or s in FLOATS) and t in FLOATS, _unsafe),
    (lambda s, t: (s in FLOATS or isinstance(s, DecimalType)) and t in INTEGRALS, _truncate_number),
    (
        lambda s, t: (s in INTEGRALS or isinstance(s, DecimalType)) and isinstance(t, DecimalType),
        _cast_to_decimal,
    ),
    (lambda s, t: isinstance(s, DecimalType) and t in FLOATS, _decimal_to_floating),
    (lambda s, t: is_numeric(s) and t == BOOLEAN, _cast_to_boolean),
    (lambda s, t: s in TIMES and t in TIMES, _cast_time),
)


def rowwise(function: Callable[..., Any], arguments: list[Value], target: pa.DataType) -> Value:
    """Apply a Python function to each row of values; null if an argument is null."""
    if all(isinstance(argument, pa.Scalar) for argument in arguments):
        values = [argument.as_py() for argument in arguments]
        return pa.scalar(None if None in values else function(*values), target)
    length = next(len(argument) for argument in arguments if not isinstance(argument, pa.Scalar))
    columns = [
        [argument.as_py()] * length if isinstance(argument, pa.Scalar) else argument.to_pylist()
        for argument in arguments
    ]
    return pa.array(
        [None if None in row else function(*row) for row in zip(*columns, strict=True)], target
    )
