"""Values set to columns by UPDATE and MERGE: checked against the schema, cast, generated again."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import SchemaMismatchError
from engine.expressions.traits import is_asked_once, is_deterministic
from engine.expressions.tree import Column as ColumnOfRow
from engine.expressions.tree import Expression
from engine.schema.assignment import Storing, plan_storage
from engine.schema.types import DataType, PrimitiveType, StructType
from engine.schema.write_errors import IdentityUpdateError, NestedFieldError, SetTwiceError
from engine.snapshot.row_rules import GENERATED, IDENTITY
from engine.spark.columns import column, quote_column, to_column
from engine.spark.own_columns import resolve_in_session
from engine.spark.write.shape import store_column
from engine.spark.write.table_rules import compute_generated, fit_to_schema

Assignments = Mapping[tuple[str, ...], Expression]
"""Expressions by the path of the assigned column."""
UPDATE = "UPDATE"
_VALUE = "__lake_value_"


@dataclass(frozen=True, slots=True)
class AssignmentClause:
    """A clause that sets values, and whether a struct may lack fields, which then become null."""

    clause: str = UPDATE
    fills_fields: bool = False


_PLAIN = AssignmentClause()


def check_assignments(
    schema: StructType,
    assignments: Assignments,
    setting: AssignmentClause = _PLAIN,
    *,
    new_rows: bool = False,
) -> None:
    """Refuse values of a wrong type for their columns, and columns set twice.

    Args:
        schema: the table's.
        assignments: the values by column path.
        setting: the clause that sets them.
        new_rows: whether the rows are new: their identity columns may take values if the table
            allows it.

    Raises:
        SchemaMismatchError: a column cannot store a value of this type.
        SetTwiceError: a column and a field inside it are both set.
        IdentityUpdateError: an identity column is set.
        NestedFieldError: a field of a new row is set.
    """
    clause = setting.clause
    for path, value in assignments.items():
        way_to_store(schema, path, value, setting)
        nested = [other for other in assignments if other != path and other[: len(path)] == path]
        if nested:
            msg = f"{clause}: {'.'.join(path)} and {'.'.join(nested[0])} are both set."
            raise SetTwiceError(msg, "Set one of them.", field="assignments")
        top = schema.get(path[0])
        if top is not None and IDENTITY in top.metadata and not new_rows:
            msg = f"{clause}: {path[0]} is an identity column, which cannot be changed."
            raise IdentityUpdateError(msg, "Do not set it.", field="assignments")
        if new_rows and len(path) > 1:
            msg = f"{clause}: {'.'.join(path)} is a nested field, which cannot be set in a new row."
            raise NestedFieldError(msg, f"Set the whole column {path[0]}.", field="assignments")


def way_to_store(
    schema: StructType, path: tuple[str, ...], value: Expression, setting: AssignmentClause
) -> Storing:
    """Return how a value is stored in the column at a path.

    Raises:
        SchemaMismatchError: it cannot be; the error names the clause and the column.
    """
    try:
        return plan_storage(
            value.type,
            target_type(schema, path),
            ".".join(path),
            fills_fields=setting.fills_fields,
        )
    except SchemaMismatchError as error:
        msg = f"{setting.clause}: {error.what}"
        raise type(error)(msg, error.remedy, field="assignments") from error


def assign_columns(
    schema: StructType,
    assignments: Assignments,
    setting: AssignmentClause = _PLAIN,
    relation: str = "",
) -> dict[str, Column]:
    """Return the new values of top-level columns, computed from the old row in frame `relation`."""
    rebuilding = _StructAssigner(schema, assignments, setting)
    new_values: dict[str, Column] = {}
    for name in dict.fromkeys(path[0] for path in assignments):
        old = F.col(f"{relation}.{quote_column(name)}") if relation else column(name)
        new_values[name] = rebuilding.value((name,), old, target_type(schema, (name,)))
    return new_values


def store_value(value: Expression, way: Storing, clause: str) -> Column:
    """Return the value of an expression as its column stores it."""
    return store_column(to_column(value), way, clause, is_steady=is_deterministic(value))


@dataclass(frozen=True)
class _StructAssigner:
    """Assignments to columns and to fields inside structs."""

    schema: StructType
    assignments: Assignments
    setting: AssignmentClause

    def value(self, path: tuple[str, ...], old: Column, kind: DataType) -> Column:
        """Return the new value at a path; a null struct is created, as in delta-spark."""
        new = self.assignments.get(path)
        if new is not None:
            way = way_to_store(self.schema, path, new, self.setting)
            return store_value(new, way, self.setting.clause)
        is_set = any(other[: len(path)] == path for other in self.assignments)
        if not is_set or not isinstance(kind, StructType):
            return old
        parts = [
            self.value((*path, field.name), old.getField(field.name), field.type).alias(field.name)
            for field in kind
        ]
        return F.struct(*parts)


def split_single_evaluation(
    assignments: Assignments, prefix: str = ""
) -> tuple[dict[str, Expression], Assignments]:
    """Split off the values that must be evaluated once; return them and the assignments over them.

    Such a value holds a subquery, is evaluated by Spark alone, or is not deterministic. The caller
    computes the values into columns of the returned names, and the assignments read these columns:
    a row written to the table and to the change feed then has the same value in both.
    """
    values: dict[str, Expression] = {}
    over = dict(assignments)
    for path, value in assignments.items():
        if is_asked_once(value) or not is_deterministic(value):
            name = f"{_VALUE}{prefix}{len(values)}"
            values[name], over[path] = value, ColumnOfRow((name,), value.type)
    return values, over


def recompute_generated(
    frame: DataFrame,
    session: SparkSession,
    table: str,
    schema: StructType,
    stand: Mapping[str, Column],
) -> DataFrame:
    """Return the rows as they are stored, with generated columns computed from the other columns.

    Expressions mean what the settings of `session` say. `stand` maps a generated column that was
    set to the condition for rows that keep its value.
    """

    def compute(rows: DataFrame) -> DataFrame:
        for field in schema:
            if GENERATED in field.metadata:
                value = compute_generated(table, schema, field)
                if field.name in stand:
                    value = F.when(stand[field.name], column(field.name)).otherwise(value)
                rows = rows.withColumn(field.name, value)
        return rows

    return resolve_in_session(fit_to_schema(frame, schema), session, compute)


def target_type(schema: StructType, path: tuple[str, ...]) -> DataType:
    """Return the type of the column at a path; void if there is no such column."""
    inside: DataType = schema
    for name in path:
        field = inside.get(name) if isinstance(inside, StructType) else None
        inside = field.type if field is not None else PrimitiveType("void")
    return inside
