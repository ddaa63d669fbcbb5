"""What a table says of its columns, kept by a scan of its files: Spark's own scans call all nullable.

Spark Connect cannot be told: its frames stay nullable.
"""

import json
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
    get_analysed_plan,
    iter_seq,
    scala_seq,
    sql_package,
)
from engine.spark.session import is_remote

_HIDDEN = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""How metadata begins that is for writers alone."""


def apply_declared_types(raw: DataFrame, schema: StructType) -> DataFrame:
    """The frame of one scan of files with the nullability that a schema of the same columns says."""
    session = raw.sparkSession
    strict = {field.name: field for field in schema if not field.nullable or _is_strict(field.type)}
    if not strict or is_remote(session):
        return raw
    plan = get_analysed_plan(raw)
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
    """The column of a frame under what the table says of it; `certain` says that no null is in it."""
    declared = column(field.name)
    if not field.nullable and certain and not is_remote(session):
        declared = _assert_not_null(declared, session)
    return declared.alias(field.name, metadata=public_metadata(field))


def hide_from_pushdown(
    value: Column, field: StructField, session: SparkSession, *, declared: bool, by_id: bool
) -> Column:
    """The column, out of reach of Parquet's own filters where it holds floats or is found `by_id`.

    Those filters know a file's columns by name alone, and its bounds leave NaN out, which Spark takes
    for more than any number: its reader would skip row groups that hold rows of `x > 5`. The log's
    statistics still choose the files. `declared` says that the column is as nullable as the table
    says, and not always nullable.
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
    """What readers may see of a column's metadata: its comment and their like."""
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
