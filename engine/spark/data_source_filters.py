"""Filters that Spark pushes to the data source `lake`, as conditions of the engine."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from pyspark.sql import datasource as spark_filters

from engine.errors import ExpressionError
from engine.expressions.build import call
from engine.expressions.scope import Scope
from engine.expressions.tree import Column, Expression, Literal
from engine.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    StructType,
)

_COMPARISONS: Mapping[type[spark_filters.Filter], str] = {
    spark_filters.EqualTo: "=",
    spark_filters.EqualNullSafe: "<=>",
    spark_filters.GreaterThan: ">",
    spark_filters.GreaterThanOrEqual: ">=",
    spark_filters.LessThan: "<",
    spark_filters.LessThanOrEqual: "<=",
    spark_filters.StringStartsWith: "startswith",
}
_PYTHON_TYPES: Mapping[Any, type] = {
    **dict.fromkeys((BYTE, SHORT, INTEGER, LONG), int),
    STRING: str,
    BOOLEAN: bool,
    DATE: date,
    DOUBLE: float,
}


def to_condition(each: spark_filters.Filter, schema: StructType) -> Expression | None:
    """The condition a filter says, None where it is not worth saying: Spark filters rows itself."""
    try:
        return _condition(each, schema)
    except ExpressionError:
        return None


def _condition(each: spark_filters.Filter, schema: StructType) -> Expression | None:
    match each:
        case spark_filters.IsNull(attribute):
            return call("isnull", [Scope.of(schema).resolve(attribute)])
        case spark_filters.IsNotNull(attribute):
            return call("isnotnull", [Scope.of(schema).resolve(attribute)])
        case spark_filters.In(attribute, values):
            return _of_values("in", Scope.of(schema).resolve(attribute), values)
        case _:
            name = _COMPARISONS.get(type(each))
            if name is None:
                return None
            column = Scope.of(schema).resolve(each.attribute)  # type: ignore[attr-defined] # all of these have it
            return _of_values(name, column, (each.value,))  # type: ignore[attr-defined]


def _of_values(name: str, column: Column, values: tuple[Any, ...]) -> Expression | None:
    kind = _PYTHON_TYPES.get(column.type)
    exact = [type(value) is kind and not isinstance(value, datetime) for value in values]
    if kind is None or not values or not all(exact):
        return None
    return call(name, [column, *[Literal(value, column.type) for value in values]])
