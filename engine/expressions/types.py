"""How Spark (ANSI) brings operand types together, and how types are written in SQL."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.expressions.tree import INTERVAL, VOID
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
    PrimitiveType,
    StructField,
    StructType,
)

INTEGRALS: tuple[DataType, ...] = (BYTE, SHORT, INTEGER, LONG)
FLOATS: tuple[DataType, ...] = (FLOAT, DOUBLE)
TIMES: tuple[DataType, ...] = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
_DIGITS: dict[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}

SQL_NAMES: dict[DataType, str] = {
    STRING: "STRING",
    LONG: "BIGINT",
    INTEGER: "INT",
    SHORT: "SMALLINT",
    BYTE: "TINYINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    BOOLEAN: "BOOLEAN",
    BINARY: "BINARY",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
}
NAMED_TYPES: dict[str, DataType] = {
    **{name: data_type for data_type, name in SQL_NAMES.items()},
    "LONG": LONG,
    "INTEGER": INTEGER,
    "SHORT": SHORT,
    "BYTE": BYTE,
    "REAL": FLOAT,
    "TIMESTAMP_LTZ": TIMESTAMP,
}


def is_numeric(data_type: DataType) -> bool:
    """Return whether a type is integral, floating or decimal."""
    return data_type in INTEGRALS or data_type in FLOATS or isinstance(data_type, DecimalType)


def is_cast_by_zone(data: DataType, table: DataType) -> bool:
    """Return whether storing values of a type in a column depends on the session's time zone."""
    return cast_by_zone(data, table) != data


def cast_by_zone(data: DataType, table: DataType) -> DataType:
    """Return the type of values after casts dependent on the session's time zone, at any depth.

    `table` is the type of the target column. Other parts of `data` stay unchanged.
    """
    match data, table:
        case StructType(), StructType():
            return StructType(tuple(_field_by_zone(field, table) for field in data))
        case ArrayType(), ArrayType():
            return replace(data, element=cast_by_zone(data.element, table.element))
        case MapType(), MapType():
            key, value = cast_by_zone(data.key, table.key), cast_by_zone(data.value, table.value)
            return replace(data, key=key, value=value)
        case _:
            is_of_times = TIMESTAMP in {data, table} and {data, table} <= {STRING, *TIMES}
            return table if is_of_times or (table == STRING and holds_timestamps(data)) else data


def _field_by_zone(field: StructField, table: StructType) -> StructField:
    column = table.get(field.name)
    return field if column is None else replace(field, type=cast_by_zone(field.type, column.type))


def holds_timestamps(data: DataType) -> bool:
    """Return whether the text of a struct, an array or a map has times in a zone."""
    match data:
        case StructType():
            return any(holds_timestamps(field.type) for field in data)
        case ArrayType():
            return holds_timestamps(data.element)
        case MapType():
            return holds_timestamps(data.key) or holds_timestamps(data.value)
        case _:
            return data == TIMESTAMP


def is_complex(data_type: DataType) -> bool:
    """Return whether a type is a struct, array, map or variant."""
    return isinstance(data_type, StructType | ArrayType | MapType) or data_type == PrimitiveType(
        "variant"
    )


def decimal_for(data_type: DataType) -> DecimalType | None:
    """Return the decimal type for all values of an integral or decimal type."""
    if isinstance(data_type, DecimalType):
        return data_type
    digits = _DIGITS.get(data_type)
    return DecimalType(digits, 0) if digits else None


def limit_decimal(precision: int, scale: int) -> DecimalType:
    """Return Spark's decimal type for a result that may exceed 38 digits."""
    if precision <= 38:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(38, max(38 - whole, min(scale, 6)))


def common_type(types: Iterable[DataType]) -> DataType | None:
    """Return the type in which values of these types are compared; None if there is none."""
    result: DataType = VOID
    for type_ in types:
        common = _common(result, type_)
        if common is None:
            return None
        result = common
    return result


def _common(left: DataType, right: DataType) -> DataType | None:  # noqa: PLR0911
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if left in TIMES and right in TIMES:
        return TIMES[max(TIMES.index(left), TIMES.index(right))]
    if is_complex(left) and is_complex(right):
        return _common_collection(left, right)
    return _common_type_with_string(left, right)


def _common_collection(left: DataType, right: DataType) -> DataType | None:
    """Return the common type of like shapes: same field names in order, null where either may be."""
    match left, right:
        case ArrayType(one, one_null), ArrayType(other, other_null):
            element = _common(one, other)
            return None if element is None else ArrayType(element, one_null or other_null)
        case MapType(one_key, one, one_null), MapType(other_key, other, other_null):
            key, value = _common(one_key, other_key), _common(one, other)
            if key is None or value is None:
                return None
            return MapType(key, value, one_null or other_null)
        case StructType(one_fields), StructType(other_fields):
            return _common_struct(one_fields, other_fields)
        case _:
            return None


def _common_struct(left: Sequence[StructField], right: Sequence[StructField]) -> StructType | None:
    if [field.name.lower() for field in left] != [field.name.lower() for field in right]:
        return None
    fields = []
    for one, other in zip(left, right, strict=True):
        common = _common(one.type, other.type)
        if common is None:
            return None
        fields.append(StructField(one.name, common, one.nullable or other.nullable))
    return StructType(tuple(fields))


def may_be_cast(source: DataType, target: DataType) -> bool:
    """Return whether CAST is allowed: atomic to atomic, or collection to collection of like shape."""
    match source, target:
        case _ if source in {VOID, target}:
            return True
        case ArrayType(one), ArrayType(other):
            return may_be_cast(one, other)
        case MapType(one_key, one), MapType(other_key, other):
            return may_be_cast(one_key, other_key) and may_be_cast(one, other)
        case StructType(one_fields), StructType(other_fields):
            pairs = zip(one_fields, other_fields, strict=False)
            alike = len(one_fields) == len(other_fields)
            return alike and all(may_be_cast(one.type, other.type) for one, other in pairs)
        case _:
            return not is_complex(source) and not is_complex(target)


def _common_number(left: DataType, right: DataType) -> DataType | None:
    if left in INTEGRALS and right in INTEGRALS:
        return INTEGRALS[max(INTEGRALS.index(left), INTEGRALS.index(right))]
    if left in FLOATS or right in FLOATS:
        return DOUBLE
    one, other = decimal_for(left), decimal_for(right)
    if one is None or other is None:
        return None
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return limit_decimal(whole + scale, scale)


def _common_type_with_string(left: DataType, right: DataType) -> DataType | None:
    other = right if left == STRING else left if right == STRING else None
    if other is None or is_complex(other) or other in {BINARY, INTERVAL}:
        return None
    if other in INTEGRALS:
        return LONG
    return DOUBLE if is_numeric(other) else other


def sql_name(data_type: DataType) -> str:
    """Return the type as Spark SQL writes it."""
    match data_type:
        case DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ArrayType(element):
            return f"ARRAY<{sql_name(element)}>"
        case MapType(key, value):
            return f"MAP<{sql_name(key)}, {sql_name(value)}>"
        case StructType(fields):
            inner = ", ".join(f"`{f.name.replace('`', '``')}`: {sql_name(f.type)}" for f in fields)
            return f"STRUCT<{inner}>"
        case PrimitiveType(name):
            return SQL_NAMES.get(PrimitiveType(name), name.upper())
