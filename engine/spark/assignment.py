"""Values set to columns by UPDATE and MERGE: checked against the schema, cast, generated anew."""

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import RequestError, SchemaMismatchError
from engine.expressions.traits import is_asked_once, is_deterministic
from engine.expressions.tree import Column as ColumnOfRow
from engine.expressions.tree import Expression
from engine.schema.types import DataType, PrimitiveType, StructType
from engine.spark.columns import column, quoted, to_column, to_spark_type
from engine.spark.shape import is_assignable, reshaped
from engine.spark.table_rules import GENERATED, IDENTITY, generated_value

Assignments = Mapping[tuple[str, ...], Expression]
"""Expressions by the path of the column that each is for."""
_VALUE = "__lake_value_"


def check_assignments(
    schema: StructType, assignments: Assignments, *, new_rows: bool = False
) -> None:
    """Refuse values that columns cannot store, and columns set twice.

    Args:
        schema: the table's.
        assignments: what is set.
        new_rows: of rows that come to be, whose identity columns may take values where the table
            allows that.

    Raises:
        SchemaMismatchError: a value of a type that its column cannot store.
        RequestError: a column and a field inside it are both set, or an identity column is.
    """
    for path, value in assignments.items():
        target = target_type(schema, path)
        if not is_assignable(value.type, target):
            shown = to_spark_type(target).simpleString()
            msg = f"{'.'.join(path)} is a {shown}, and its value is not."
            raise SchemaMismatchError(msg, "Cast the value.", field="assignments")
        nested = [other for other in assignments if other != path and other[: len(path)] == path]
        if nested:
            msg = f"{'.'.join(path)} and {'.'.join(nested[0])} are both set."
            raise RequestError(msg, "Set one of them.", field="assignments")
        top = schema.get(path[0])
        if top is not None and IDENTITY in top.metadata and not new_rows:
            msg = f"{path[0]} is an identity column, which cannot be changed."
            raise RequestError(msg, "Leave it as it is.", field="assignments")


def assigned_columns(
    schema: StructType, assignments: Assignments, relation: str = ""
) -> dict[str, Column]:
    """The new values of top-level columns, over the row as it was, in a frame of that alias."""
    new_values: dict[str, Column] = {}
    for path, value in assignments.items():
        new = reshaped(to_column(value), value.type, target_type(schema, path))
        old = F.col(f"{relation}.{quoted(path[0])}") if relation else column(path[0])
        top = new_values.get(path[0], old)
        new_values[path[0]] = new if len(path) == 1 else top.withField(_dotted(path[1:]), new)
    return new_values


def asked_once(
    assignments: Assignments, prefix: str = ""
) -> tuple[dict[str, Expression], Assignments]:
    """The values that are to be asked for once, and the assignments over them.

    They hold subqueries or what Spark alone evaluates, or would be others each time. The first are to be computed into columns of
    those names, which the second read. Where a row is written to the table and to its change feed,
    both must say the same of it.
    """
    values: dict[str, Expression] = {}
    over = dict(assignments)
    for path, value in assignments.items():
        if is_asked_once(value) or not is_deterministic(value):
            name = f"{_VALUE}{prefix}{len(values)}"
            values[name], over[path] = value, ColumnOfRow((name,), value.type)
    return values, over


def regenerated(
    frame: DataFrame, table: str, schema: StructType, assigned: Collection[tuple[str, ...]]
) -> DataFrame:
    """The rows with generated columns that were not set themselves computed from the others."""
    set_columns = {path[0] for path in assigned}
    for field in schema:
        if GENERATED in field.metadata and field.name not in set_columns:
            value = generated_value(table, schema, field).cast(to_spark_type(field.type))
            frame = frame.withColumn(field.name, value)
    return frame


def target_type(schema: StructType, path: tuple[str, ...]) -> DataType:
    """The type of the column at a path."""
    inside: DataType = schema
    for name in path:
        field = inside.get(name) if isinstance(inside, StructType) else None
        inside = field.type if field is not None else PrimitiveType("void")
    return inside


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(quoted(name) for name in path)
