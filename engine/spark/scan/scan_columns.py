"""Columns of a scan, with the nullability that the table declares.

Spark's scans make all columns nullable. Spark Connect has no way to declare otherwise: its frames
stay nullable. The columns are made once for each form of table, because that takes a dozen calls of
the JVM.
"""

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.schema.types import (
    DOUBLE,
    FLOAT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    type_to_json,
)
from engine.spark.columns import column, drop_nullability
from engine.spark.jvm import (
    column_of,
    data_type,
    expression_of,
    frame_over,
    get_analyzed_plan,
    iter_seq,
    keep_in_jvm,
    scala_seq,
    sql_package,
)
from engine.spark.session import is_remote

_HIDDEN = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Prefixes of metadata for writers only."""

_LONGEST = 100_000
"""Columns of a longer form are made each time."""


def apply_declared_types(raw: DataFrame, schema: StructType) -> DataFrame:
    """Return the frame of one scan with the nullability of a schema of the same columns."""
    session = raw.sparkSession
    strict = {field.name: field for field in schema if not field.nullable or _is_strict(field.type)}
    if not strict or is_remote(session):
        return raw
    plan = get_analyzed_plan(raw)
    attributes = [_declare(attribute, strict, session) for attribute in iter_seq(plan.output())]
    typed_plan = plan.copy(
        plan.relation(),
        scala_seq(attributes, session),
        plan.catalogTable(),
        plan.isStreaming(),
        plan.stream(),
    )
    return frame_over(typed_plan, session)


def declare_column(field: StructField, session: SparkSession, *, certain: bool) -> Column:
    """Return a column with the table's declaration; `certain` states that it holds no null."""
    declared = column(field.name)
    if not field.nullable and certain and not is_remote(session):
        declared = _assert_not_null(declared, session)
    return declared.alias(field.name, metadata=public_metadata(field))


def hide_from_pushdown(
    value: Column, field: StructField, session: SparkSession, *, declared: bool, by_id: bool
) -> Column:
    """Hide a column from Parquet's filters if it holds floats or is mapped `by_id`.

    Parquet's filters find columns by name only, and its bounds leave out NaN, which Spark orders
    above every number: the reader would skip row groups with rows of `x > 5`. The log's statistics
    still choose the files. `declared` states that the column has the table's nullability, and is
    not always nullable.
    """
    if not (by_id or _holds_floats(field.type)):
        return value
    if is_remote(session):
        return F.coalesce(value, value).alias(field.name)
    expressions = sql_package(session).catalyst.expressions
    is_strict = declared and not field.nullable
    tag = expressions.KnownNotNull if is_strict else expressions.KnownNullable
    return column_of(tag(expression_of(value, session)), session).alias(field.name)


def _holds_floats(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_holds_floats(field.type) for field in kind)
        case ArrayType(element, _):
            return _holds_floats(element)
        case MapType(key, value, _):
            return _holds_floats(key) or _holds_floats(value)
        case _:
            return kind in {FLOAT, DOUBLE}


def public_metadata(field: StructField) -> dict[str, object]:
    """Return a column's metadata for readers, such as its comment."""
    return {key: value for key, value in field.metadata.items() if not key.startswith(_HIDDEN)}


def _assert_not_null(value: Column, session: SparkSession) -> Column:
    not_null = sql_package(session).catalyst.expressions.KnownNotNull(expression_of(value, session))
    return column_of(not_null, session)


def _declare(attribute: Any, strict: dict[str, StructField], session: SparkSession) -> Any:  # noqa: ANN401
    field = strict.get(attribute.name())
    if field is None:
        return attribute
    kind = data_type(json.dumps(type_to_json(field.type)), session)
    return attribute.withDataType(kind).withNullability(field.nullable)


def _is_strict(declared: DataType) -> bool:
    """Whether something inside it cannot be null."""
    return drop_nullability(declared) != declared


def select_columns(
    frame: DataFrame, form: Hashable, columns: Callable[[], Sequence[Column]]
) -> DataFrame:
    """Select the columns of `columns` from the frame; frames of an equal `form` share them.

    The columns belong to no frame: another frame resolves them by name.
    """
    session = frame.sparkSession
    if is_remote(session) or len(repr(form)) > _LONGEST:
        return frame.select(*columns())
    inside: Any = frame

    def make() -> Any:  # noqa: ANN401 - one of Scala's lists
        made: list[Any] = list(columns())
        return scala_seq([one._jc for one in made], session)

    listed = keep_in_jvm(session.sparkContext, ("columns", form), make)
    return DataFrame(inside._jdf.select(listed), session)
