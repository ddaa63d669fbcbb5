"""DEFAULT as a value of UPDATE, MERGE and INSERT … VALUES: what the table says of the column, else null."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from engine.commands.column_sql import DEFAULT
from engine.schema.types import StructType
from engine.spark.jvm import iter_seq, scala_seq, sql_package
from engine.spark.statement_plan import Java, kind_of, texts_of

_INLINE = "UnresolvedInlineTable"


def value_or_default(
    spark: SparkSession, value: Java, schema: StructType, path: Sequence[str]
) -> Java:
    """A value, or the default of the column that it is for."""
    if not _is_default(value):
        return value
    field = schema.get(path[-1]) if len(path) <= 2 else None
    text = None if field is None else field.metadata.get(DEFAULT)
    inside: Any = spark
    parser = inside._jsparkSession.sessionState().sqlParser()
    return parser.parseExpression("NULL" if text is None else str(text))


def values_with_defaults(
    spark: SparkSession, query: Java, schema: StructType, names: Sequence[str]
) -> Java:
    """The rows of VALUES with the defaults of the columns that they are for; other queries as they are."""
    if kind_of(query) != _INLINE:
        return query
    rows = [list(iter_seq(row)) for row in iter_seq(query.rows())]
    if not any(_is_default(value) for row in rows for value in row):
        return query
    filled = [
        scala_seq(
            [
                value_or_default(spark, value, schema, [name])
                for value, name in zip(row, names, strict=False)
            ]
            + row[len(names) :],
            spark,
        )
        for row in rows
    ]
    inline = sql_package(spark).catalyst.analysis.UnresolvedInlineTable
    return inline(query.names(), scala_seq(filled, spark))


def _is_default(value: Java) -> bool:
    if kind_of(value) != "UnresolvedAttribute":
        return False
    parts = texts_of(value.nameParts())
    return len(parts) == 1 and parts[0].upper() == "DEFAULT"
