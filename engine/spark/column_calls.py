"""Calls over columns that Spark cannot be given as text: those that subqueries are arguments of."""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import ExpressionError
from engine.expressions.functions import FUNCTIONS
from engine.expressions.tree import Call
from engine.spark.columns import quoted, to_spark_type


def called(call: Call, arguments: list[SparkColumn]) -> SparkColumn:
    """A call whose arguments Spark cannot be given as text."""
    if call.function in {"cast", "try_cast"}:
        target = to_spark_type(call.type)
        lenient = call.function == "try_cast"
        return arguments[0].try_cast(target) if lenient else arguments[0].cast(target)
    made = _OPERATORS.get(call.function)
    if made is not None:
        return made(*arguments)
    if call.function in FUNCTIONS:
        return F.call_function(quoted(call.function), *arguments)
    what = f"{call.function} cannot be used on a subquery or on a column of the query around."
    raise ExpressionError(what, "Use a join.")


def _case(*arguments: SparkColumn) -> SparkColumn:
    pairs = len(arguments) // 2 * 2
    found = F.when(arguments[0], arguments[1])
    for index in range(2, pairs, 2):
        found = found.when(arguments[index], arguments[index + 1])
    return found.otherwise(arguments[-1]) if len(arguments) > pairs else found


def _one_of(value: SparkColumn, *options: SparkColumn) -> SparkColumn:
    return reduce(SparkColumn.__or__, [value == each for each in options])


_OPERATORS: dict[str, Callable[..., SparkColumn]] = {
    "and": lambda *parts: reduce(SparkColumn.__and__, parts),
    "or": lambda *parts: reduce(SparkColumn.__or__, parts),
    "case": _case,
    "in": _one_of,
    "get": lambda one, other: one[other],
    "not": lambda one: ~one,
    "=": lambda one, other: one == other,
    "<=>": lambda one, other: one.eqNullSafe(other),
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other,
    "%": lambda one, other: one % other,
    "negative": lambda one: -one,
    "isnull": lambda one: one.isNull(),
    "isnotnull": lambda one: one.isNotNull(),
    "like": F.like,
    "ilike": F.ilike,
}
