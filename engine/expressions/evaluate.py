"""Evaluation of expressions over Arrow data and partition values, exactly as Spark does it.

Three-valued logic, NaN equal to itself and above every number, ANSI casts, time zone UTC. If Arrow
cannot guarantee this, `CannotEvaluateError` tells the caller to use Spark, or to assume a match.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import CannotEvaluateError
from engine.expressions.arrow_cast import Value, arrow_type, canonical, convert, inexact
from engine.expressions.arrow_functions import FUNCTIONS_OF_ARROW
from engine.expressions.tree import (
    Call,
    Column,
    Expression,
    Interval,
    Literal,
    SparkExpression,
    Subquery,
    Variable,
    walk,
)
from engine.schema.types import DataType


def evaluate_arrow(expression: Expression, table: pa.Table) -> pa.ChunkedArray:
    """Evaluate an expression for every row, in the Arrow type of its type.

    Columns are looked up by logical name; a missing column is null in every row.

    Raises:
        CannotEvaluateError: Arrow cannot evaluate it exactly as Spark does, or Spark fails on a
            row.
    """
    target = arrow_type(expression.type)
    batches = table.to_batches() or [_empty_batch(table.schema)]
    chunks = [_rows(_attempt(expression, batch), batch.num_rows, target) for batch in batches]
    return pa.chunked_array(chunks, target)


def evaluate_partition(expression: Expression, values: Mapping[str, Any]) -> bool | None:
    """Evaluate a condition over one partition's values, by logical column name.

    Raises:
        CannotEvaluateError: as in `evaluate_arrow`, or `values` lacks a column.
    """
    columns = {node.path[0]: node for node in walk(expression) if isinstance(node, Column)}
    missing = [name for name in columns if name not in values]
    if missing or any(len(column.path) > 1 for column in columns.values()):
        inexact("a condition on columns that are not partition columns")
    arrays = {
        name: pa.array([values[name]], arrow_type(column.type)) for name, column in columns.items()
    }
    table = pa.table(arrays) if arrays else pa.table({"": pa.nulls(1)})
    matches: bool | None = evaluate_arrow(expression, table)[0].as_py()
    return matches


def find_matches(expression: Expression, table: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether it matches a condition; null is no match."""
    truths = evaluate_arrow(expression, table).cast(pa.bool_())  # an untyped NULL
    return pc.fill_null(truths, False)


def _attempt(expression: Expression, batch: pa.RecordBatch) -> Value:
    try:
        return _value(expression, batch)
    except OverflowError as error:
        what = "Arrow cannot evaluate the expression: a number is outside the range of its type."
        raise CannotEvaluateError(what) from error
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
        what = f"Arrow cannot evaluate the expression on every row: {str(error)[:200]}."
        raise CannotEvaluateError(what) from error


def _value(expression: Expression, batch: pa.RecordBatch) -> Value:  # noqa: RET503
    match expression:
        case Literal(value, data_type):
            return value if isinstance(value, Interval) else pa.scalar(value, arrow_type(data_type))
        case Column():
            return _column(expression, batch)
        case Call(function, arguments, data_type):
            values = [_value(argument, batch) for argument in arguments]
            return _apply(function, values, [argument.type for argument in arguments], data_type)
        case Subquery():
            inexact("a subquery")
        case Variable():
            inexact("a lambda")
        case SparkExpression(text=text):
            inexact(f"an expression that only Spark evaluates ({text[:100]})")
        case _:
            assert_never(expression)


def _apply(function: str, values: list[Value], types: list[DataType], result: DataType) -> Value:
    if function in {"cast", "try_cast"}:
        return convert(values[0], types[0], result)
    operation = FUNCTIONS_OF_ARROW.get(function)
    if operation is None:
        inexact(f"the function {function}")
    return operation(values, types, result)


def _column(column: Column, batch: pa.RecordBatch) -> Value:
    index = batch.schema.get_field_index(column.path[0])
    if index < 0:
        return pa.nulls(batch.num_rows, arrow_type(column.type))
    array = batch.column(index)
    for name in column.path[1:]:
        if array.type.get_field_index(name) < 0:
            return pa.nulls(batch.num_rows, arrow_type(column.type))
        array = pc.struct_field(array, name)
    return canonical(array, column.type)


def _rows(value: Value, count: int, target: pa.DataType) -> pa.Array:
    if isinstance(value, pa.Scalar):
        return (
            pa.nulls(count, target) if not value.is_valid else pa.repeat(value.cast(target), count)
        )
    return value if value.type == target else pc.cast(value, target)


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.nulls(0, column.type) for column in schema], schema=schema
    )
