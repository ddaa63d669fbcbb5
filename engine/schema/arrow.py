"""Delta's types ↔ Arrow's."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from engine.errors import EngineError, InvalidSchemaError
from engine.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    ForeignType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    foreign_types,
)

VARIANT_STORAGE = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": VARIANT_STORAGE,
    "void": pa.null(),
}


class UnsupportedTypeError(EngineError, code="DELTA_UNSUPPORTED_DATA_TYPES", sqlstate="0AKDC"):
    """Columns have types of other engines that this one lacks."""

    def __init__(self, types: Iterable[str]) -> None:
        self.types = list(types)
        super().__init__(
            f"This engine neither reads nor writes {', '.join(self.types)}.",
            "Read only the other columns, or use an engine that supports the type.",
        )


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a table's schema to Arrow, without field metadata."""
    return pa.schema([_convert_to_arrow_field(column) for column in schema])


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """Convert a Delta type to Arrow: times in microseconds, a variant as its two binaries.

    Raises:
        UnsupportedTypeError: it is a type of other engines.
    """
    match data_type:
        case PrimitiveType(name):
            if isinstance(data_type, ForeignType):
                raise UnsupportedTypeError(foreign_types(data_type))
            return _PRIMITIVES[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", to_arrow_type(element), contains_null))
        case MapType(key, value, value_contains_null):
            return pa.map_(
                to_arrow_type(key), pa.field("value", to_arrow_type(value), value_contains_null)
            )
        case StructType(fields):
            return pa.struct([_convert_to_arrow_field(field) for field in fields])


def check_supported(columns: Iterable[StructField]) -> None:
    """Refuse columns with types only other engines support.

    Raises:
        UnsupportedTypeError: lists the types and their columns.
    """
    foreign = [(kind, column.name) for column in columns for kind in foreign_types(column.type)]
    if foreign:
        raise UnsupportedTypeError(f"{kind} (column {name})" for kind, name in foreign)


def from_arrow_type(arrow: pa.DataType) -> DataType:
    """Convert an Arrow type to a Delta type able to store its values.

    Raises:
        InvalidSchemaError: there is none.
    """
    if isinstance(arrow, pa.BaseExtensionType):
        return from_arrow_type(arrow.storage_type)
    if pa.types.is_dictionary(arrow):
        return from_arrow_type(arrow.value_type)
    data_type = next((convert(arrow) for matches, convert in _CONVERSIONS if matches(arrow)), None)
    if data_type is None:
        msg = f"A table cannot have a column of the Arrow type {arrow}."
        raise InvalidSchemaError(msg, "Cast it to a type that Delta has.")
    return data_type


def _convert_to_arrow_field(column: StructField) -> pa.Field:
    return pa.field(column.name, to_arrow_type(column.type), column.nullable)


def _convert_from_arrow_field(column: pa.Field) -> StructField:
    return StructField(column.name, from_arrow_type(column.type), column.nullable)


def _list(arrow: Any) -> DataType:  # noqa: ANN401 - any of Arrow's list types
    return ArrayType(from_arrow_type(arrow.value_type), arrow.value_field.nullable)


def _map(arrow: "Any") -> DataType:  # noqa: ANN401 - an Arrow map type
    return MapType(
        from_arrow_type(arrow.key_type), from_arrow_type(arrow.item_type), arrow.item_field.nullable
    )


def _struct(arrow: pa.StructType) -> DataType:
    return StructType(
        tuple(_convert_from_arrow_field(arrow.field(i)) for i in range(arrow.num_fields))
    )


def _decimal(arrow: Any) -> DataType | None:  # noqa: ANN401 - any of Arrow's decimals
    fits = 0 <= arrow.scale <= arrow.precision <= 38
    return DecimalType(arrow.precision, arrow.scale) if fits else None


def _timestamp(arrow: Any) -> DataType:  # noqa: ANN401 - an Arrow timestamp type
    return PrimitiveType("timestamp_ntz" if arrow.tz is None else "timestamp")


def _build_primitive(name: str) -> Callable[[Any], DataType]:
    return lambda _: PrimitiveType(name)


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], DataType | None]], ...] = (
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_fixed_size_list, _list),
    (pa.types.is_list_view, _list),
    (pa.types.is_large_list_view, _list),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_int64, _build_primitive("long")),
    (pa.types.is_int32, _build_primitive("integer")),
    (pa.types.is_int16, _build_primitive("short")),
    (pa.types.is_int8, _build_primitive("byte")),
    (pa.types.is_uint8, _build_primitive("short")),
    (pa.types.is_uint16, _build_primitive("integer")),
    (pa.types.is_uint32, _build_primitive("long")),
    (pa.types.is_float64, _build_primitive("double")),
    (pa.types.is_float32, _build_primitive("float")),
    (pa.types.is_float16, _build_primitive("float")),
    (pa.types.is_boolean, _build_primitive("boolean")),
    (pa.types.is_date, _build_primitive("date")),
    (pa.types.is_null, _build_primitive("void")),
    (pa.types.is_string, _build_primitive("string")),
    (pa.types.is_large_string, _build_primitive("string")),
    (pa.types.is_string_view, _build_primitive("string")),
    (pa.types.is_binary, _build_primitive("binary")),
    (pa.types.is_large_binary, _build_primitive("binary")),
    (pa.types.is_binary_view, _build_primitive("binary")),
    (pa.types.is_fixed_size_binary, _build_primitive("binary")),
)
