"""Rows of one schema as rows of a table's: by name, with the casts that ANSI store assignment allows."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import SchemaMismatchError
from engine.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.spark.columns import column, to_spark_type

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


def check_assignable(table: StructType, data: StructType) -> None:
    """Refuse data that a table cannot take.

    Raises:
        SchemaMismatchError: a column that the table lacks, or a type that cannot be stored in its.
    """
    for field in data:
        target = table.get(field.name)
        if target is None:
            msg = f"The data has the column {field.name}, which the table lacks."
            raise SchemaMismatchError(
                msg, "Leave it out, or have new columns added.", field="source"
            )
        if not is_assignable(field.type, target.type):
            given, expected = _shown(field.type), _shown(target.type)
            msg = f"The column {field.name} is a {expected}, and the data has a {given}."
            raise SchemaMismatchError(msg, "Cast it in the source.", field="source")


def is_assignable(data: DataType, table: DataType) -> bool:
    """Whether values of a type may be stored in a column; some may still be out of range."""
    match data, table:
        case StructType(), StructType():
            pairs = [(field, table.get(field.name)) for field in data]
            fits = all(target and is_assignable(field.type, target.type) for field, target in pairs)
        case ArrayType(), ArrayType():
            fits = is_assignable(data.element, table.element)
        case MapType(), MapType():
            fits = is_assignable(data.key, table.key) and is_assignable(data.value, table.value)
        case PrimitiveType() | DecimalType(), PrimitiveType() | DecimalType():
            fits = _is_plain_assignable(_name(data), _name(table))
        case _:
            fits = False
    return fits or data == table or data == PrimitiveType("void")


def shaped(frame: DataFrame, data: StructType, table: Sequence[StructField]) -> DataFrame:
    """The rows under the table's columns; those that the data lacks are left out."""
    columns = []
    for field in table:
        source = data.get(field.name)
        if source is not None:
            columns.append(reshaped(column(source.name), source.type, field.type).alias(field.name))
    return frame.select(*columns)


def reshaped(value: Column, data: DataType, table: DataType) -> Column:
    """A value of an assignable type as the column's type; structs by the names of their fields."""
    if data == table:
        return value
    match data, table:
        case StructType(), StructType():
            fields = [_field(value, data, field).alias(field.name) for field in table]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda item: reshaped(item, data.element, table.element))
        case MapType(), MapType():
            keys = F.transform_keys(value, lambda k, _: reshaped(k, data.key, table.key))
            return F.transform_values(keys, lambda _, v: reshaped(v, data.value, table.value))
        case _:
            return value.cast(to_spark_type(table))


def _field(value: Column, data: StructType, field: StructField) -> Column:
    source = data.get(field.name)
    if source is None:
        return F.lit(None).cast(to_spark_type(field.type))
    return reshaped(value.getField(source.name), source.type, field.type)


def _is_plain_assignable(data: str, table: str) -> bool:
    if table == "string":
        return data not in {"binary", "variant"}
    numeric = _NUMBERS | {"decimal"}
    return (data in numeric and table in numeric) or (data in _TIMES and table in _TIMES)


def _name(data_type: PrimitiveType | DecimalType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else "decimal"


def _shown(data_type: DataType) -> str:
    return str(to_spark_type(data_type).simpleString())
