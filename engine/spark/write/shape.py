"""Rows of one schema as rows of a table's: by name, stored as `engine.schema.assignment` decides."""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import SchemaMismatchError
from engine.expressions.types import cast_by_zone
from engine.schema.assignment import (
    Cast,
    Entries,
    Fields,
    Items,
    Storing,
    is_unchanged,
    plan_storage,
)
from engine.schema.types import STRING, StructField, StructType
from engine.schema.write_errors import ColumnCountError, FieldMismatchError, FieldMissingError
from engine.spark.columns import column, from_spark_schema, to_spark_type
from engine.spark.write.row_checks import raise_invalid_value

INSERT = "INSERT"


def check_assignable(table: StructType, data: StructType) -> None:
    """Refuse data that a table cannot take.

    Raises:
        SchemaMismatchError: the table lacks a column, or its column cannot store the type.
        ColumnCountError: a struct lacks a field of the table's.
    """
    for field in data:
        target = table.get(field.name)
        if target is None:
            msg = f"The data has the column {field.name}, but the table does not."
            raise SchemaMismatchError(msg, "Remove it, or enable schema evolution.", field="source")
        try:
            plan_storage(field.type, target.type, target.name)
        except FieldMismatchError as error:
            lacks = isinstance(error, FieldMissingError)
            kind = ColumnCountError if lacks else SchemaMismatchError
            raise kind(error.what, error.remedy, field="source") from error


def fit_to_table(
    frame: DataFrame,
    data: StructType,
    table: Sequence[StructField],
    *,
    names_values: bool = True,
) -> DataFrame:
    """Return the rows under the table's columns; columns missing from the data are left out.

    Without `names_values`, the error for a value that cannot be stored is Spark's own; it then
    needs ANSI mode.
    """
    pairs = [(field, data.get(field.name)) for field in table]
    ways = [
        (source.name, plan_storage(source.type, field.type, field.name), field.name)
        for field, source in pairs
        if source is not None
    ]
    if [(given, name) for given, way, name in ways if is_unchanged(way)] == [
        (given, given) for given in frame.columns
    ]:
        return frame  # unchanged: saves a plan
    columns = [
        store_column(column(given), way, INSERT, is_steady=names_values).alias(name)
        for given, way, name in ways
    ]
    return frame.select(*columns)


def cast_in_session(frame: DataFrame, table: StructType) -> DataFrame:
    """Cast times in the rows' own session if its time zone decides the stored value."""
    data = from_spark_schema(frame.schema)
    columns, is_cast = [], False
    for field in data:
        value, target = column(field.name), table.get(field.name)
        zoned = field.type if target is None else cast_by_zone(field.type, target.type)
        if target is not None and zoned != field.type:
            is_cast = True
            value = store_column(value, plan_storage(field.type, zoned, target.name), INSERT).alias(
                field.name
            )
        columns.append(value)
    return frame.select(*columns) if is_cast else frame


def store_column(value: Column, way: Storing, clause: str, *, is_steady: bool = True) -> Column:
    """Cast a value to the column's type.

    Args:
        value: of the source type of `way`.
        way: the conversion.
        clause: the clause that sets it, for people.
        is_steady: whether a second evaluation gives the same value. The error for a value that
            cannot be stored then names the column.
    """
    new = value
    if is_unchanged(way):
        return new

    def store_inner(part: Column, its_way: Storing) -> Column:
        return store_column(part, its_way, clause, is_steady=is_steady)

    match way:
        case Cast():
            named = way.may_fail and is_steady
            new = (
                _cast_or_fail(value, way, clause)
                if named
                else value.cast(to_spark_type(way.target))
            )
        case Items(item=item):
            new = F.transform(value, lambda part: store_inner(part, item))
        case Entries(key=key, value=held):
            keys = F.transform_keys(value, lambda part, _: store_inner(part, key))
            new = F.transform_values(keys, lambda _, part: store_inner(part, held))
        case Fields():
            fields = [
                _field(value, *pair, store_inner)
                for pair in zip(way.target, way.parts, strict=True)
            ]
            new = F.when(value.isNotNull(), F.struct(*fields))
    return new


def _field(
    value: Column,
    field: StructField,
    part: tuple[StructField, Storing] | None,
    inside: Callable[[Column, Storing], Column],
) -> Column:
    if part is None:
        new = F.lit(None).cast(to_spark_type(field.type))
    else:
        new = inside(value.getField(part[0].name), part[1])
    return new.alias(field.name)


def _cast_or_fail(value: Column, way: Cast, clause: str) -> Column:
    """Cast the value; the job fails with the column's name if it cannot."""
    kind = to_spark_type(way.target)
    tried = value.try_cast(kind)
    facts: dict[str, str | bool] = {
        "place": way.place,
        "type": str(kind.simpleString()),
        "clause": clause,
        "overflow": way.source != STRING,
    }
    refused = raise_invalid_value(value, facts).cast(kind)
    return F.when(value.isNull() | tried.isNotNull(), tried).otherwise(refused)
