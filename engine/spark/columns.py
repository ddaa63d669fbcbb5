"""The engine's types and expressions as Spark's.

Text from people never reaches Spark: Spark parses SQL rendered from the engine's own tree.
"""

import json

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql import types as spark_types

from engine.errors import ExpressionError
from engine.expressions.render import to_sql
from engine.expressions.spark_rewrites import adapt_to_spark
from engine.expressions.traits import has_subquery, spark_expressions
from engine.expressions.tree import Call, Expression, SparkExpression
from engine.expressions.tree import Column as ColumnOfRow
from engine.schema.arrow import UnsupportedTypeError, check_supported
from engine.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    foreign_types,
    type_from_json,
    type_to_json,
)
from engine.spark.jvm import column_named


def to_column(expression: Expression) -> Column:
    """Return the expression as a Spark column over columns of the same names.

    Parts that only Spark evaluates must be among the rows' columns (`engine.spark.own_columns`).

    Raises:
        ExpressionError: it holds a subquery, which has no text (`QueryFrames` has a column for it).
    """
    if has_subquery(expression):
        what = "A subquery is not allowed here."
        raise ExpressionError(what, "Use MERGE, or a SELECT as the source.")
    if spark_expressions(expression):
        expression = _substitute_computed(expression)
    return F.expr(to_sql(adapt_to_spark(expression)))


def _substitute_computed(expression: Expression) -> Expression:
    match expression:
        case SparkExpression(name=name, type=data_type):
            return ColumnOfRow((name,), data_type)
        case Call(function, arguments, data_type):
            return Call(function, tuple(map(_substitute_computed, arguments)), data_type)
        case _:
            return expression


def is_true(expression: Expression) -> Column:
    """Whether a condition holds: null counts as no."""
    return F.coalesce(to_column(expression), F.lit(False))


def to_spark_type(data_type: DataType) -> spark_types.DataType:
    """Return a type without its columns' metadata, everything nullable.

    Raises:
        UnsupportedTypeError: it is or holds a type of other engines.
    """
    if foreign := foreign_types(data_type):
        raise UnsupportedTypeError(foreign)
    value = type_to_json(drop_nullability(data_type))
    if isinstance(value, str):
        return spark_types._parse_datatype_json_value(value)
    return spark_types._parse_datatype_json_string(json.dumps(value))


def to_spark_schema(schema: StructType) -> spark_types.StructType:
    """Return a schema without its columns' metadata, everything nullable.

    Raises:
        UnsupportedTypeError: a column has a type of other engines.
    """
    check_supported(schema)
    return spark_types.StructType(
        [spark_types.StructField(field.name, to_spark_type(field.type)) for field in schema]
    )


def from_spark_schema(schema: spark_types.StructType) -> StructType:
    """Return the schema of a DataFrame without metadata and NOT NULL."""
    definition = type_from_json(json.loads(schema.json()))
    if not isinstance(definition, StructType):
        msg = f"{schema} is not a struct"
        raise TypeError(msg)
    return StructType(tuple(StructField(f.name, drop_nullability(f.type)) for f in definition))


def drop_nullability(data_type: DataType) -> DataType:
    """Return the type with everything in it nullable and no metadata."""
    match data_type:
        case StructType(fields):
            return StructType(tuple(StructField(f.name, drop_nullability(f.type)) for f in fields))
        case ArrayType(element, _):
            return ArrayType(drop_nullability(element))
        case MapType(key, value, _):
            return MapType(drop_nullability(key), drop_nullability(value))
        case _:
            return data_type


def quote_column(name: str) -> str:
    """Quote a column name for `DataFrame.select` and `F.col`: dots in it stay part of the name."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """Return the top-level column of exactly this name."""
    return column_named(quote_column(name))
