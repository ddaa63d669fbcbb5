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
    for each in data:
        target = table.get(each.name)
        if target is None:
            msg = f"The data has the column {each.name}, which the table lacks."
            raise SchemaMismatchError(
                msg, "Leave it out, or have new columns added.", field="source"
            )
        if not is_assignable(each.type, target.type):
            found, wanted = _shown(each.type), _shown(target.type)
            msg = f"The column {each.name} is a {wanted}, and the data has a {found}."
            raise SchemaMismatchError(msg, "Cast it in the source.", field="source")


def is_assignable(data: DataType, table: DataType) -> bool:
    """Whether values of a type may be stored in a column; some may still be out of range."""
    match data, table:
        case StructType(), StructType():
            pairs = [(each, table.get(each.name)) for each in data]
            fits = all(target and is_assignable(each.type, target.type) for each, target in pairs)
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
    for each in table:
        source = data.get(each.name)
        if source is not None:
            columns.append(reshaped(column(source.name), source.type, each.type).alias(each.name))
    return frame.select(*columns)


def reshaped(value: Column, data: DataType, table: DataType) -> Column:
    """A value of an assignable type as the column's type; structs by the names of their fields."""
    if data == table:
        return value
    match data, table:
        case StructType(), StructType():
            fields = [_field(value, data, each).alias(each.name) for each in table]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda item: reshaped(item, data.element, table.element))
        case MapType(), MapType():
            keys = F.transform_keys(value, lambda k, _: reshaped(k, data.key, table.key))
            return F.transform_values(keys, lambda _, v: reshaped(v, data.value, table.value))
        case _:
            return value.cast(to_spark_type(table))


def _field(value: Column, data: StructType, each: StructField) -> Column:
    source = data.get(each.name)
    if source is None:
        return F.lit(None).cast(to_spark_type(each.type))
    return reshaped(value.getField(source.name), source.type, each.type)


def _is_plain_assignable(data: str, table: str) -> bool:
    if table == "string":
        return data not in {"binary", "variant"}
    numeric = _NUMBERS | {"decimal"}
    return (data in numeric and table in numeric) or (data in _TIMES and table in _TIMES)


def _name(data_type: PrimitiveType | DecimalType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else "decimal"


def _shown(data_type: DataType) -> str:
    return str(to_spark_type(data_type).simpleString())
