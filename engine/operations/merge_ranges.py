"""How far a MERGE's source reaches: bounds that every target row it can match lies within.

ON asks that a column of the target equal a value of the source, and the source is read once. So no
other row is read, neither by the MERGE nor for its conflicts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.expressions.traits import is_deterministic, relations_of, split_conjuncts
from engine.expressions.tree import FALSE, Call, Column, Expression, Literal, Value
from engine.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
)
from engine.spark.columns import to_column

_INTEGERS = frozenset({BYTE, SHORT, INTEGER, LONG})
_ORDERED = _INTEGERS | {STRING, DATE, TIMESTAMP}


Bounds: TypeAlias = Sequence[tuple[object, object]]
"""The least and the greatest of each of some values, both None where all of one are null."""


def source_ranges(
    on: Expression, bounds_of: Callable[[Sequence[Expression]], Bounds]
) -> list[Expression]:
    """Conditions over the target's own columns, one for each equality of ON that gives bounds.

    `bounds_of` looks at the source's rows.
    """
    keys = list(_keys(on))
    bounds = bounds_of([value for _, value in keys]) if keys else []
    return [
        _between(column, value.type, low, high)
        for (column, value), (low, high) in zip(keys, bounds, strict=True)
    ]


def bounds_by_spark(source: DataFrame, values: Sequence[Expression]) -> Bounds:
    """The bounds of values over a DataFrame."""
    both = []
    for i, value in enumerate(values):
        key = to_column(value)
        both += [F.min(key).alias(f"low{i}"), F.max(key).alias(f"high{i}")]
    row = source.alias("source").agg(*both).toArrow().to_pylist()[0]
    return [(row[f"low{i}"], row[f"high{i}"]) for i in range(len(values))]


def _keys(on: Expression) -> Iterator[tuple[Column, Expression]]:
    for part in split_conjuncts(on):
        if not isinstance(part, Call) or part.function != "=":
            continue
        for mine, other in (part.arguments, reversed(part.arguments)):
            if isinstance(mine, Column) and mine.relation == "target" and len(mine.path) == 1:
                fits = relations_of(other) == {"source"} and is_deterministic(other)
                if fits and _is_comparable(mine.type, other.type):
                    yield Column(mine.path, mine.type), other


def _is_comparable(target: DataType, source: DataType) -> bool:
    if target in _INTEGERS and source in _INTEGERS:
        return True
    return target == source and (target in _ORDERED or isinstance(target, DecimalType))


def _between(column: Column, data_type: DataType, low: object, high: object) -> Expression:
    """Null keys equal nothing: without bounds no row can match."""
    if low is None or high is None:
        return FALSE
    lower = Literal(cast("Value", low), data_type)
    upper = Literal(cast("Value", high), data_type)
    if lower == upper:
        return Call("=", (column, lower), BOOLEAN)
    above = Call(">=", (column, lower), BOOLEAN)
    return Call("and", (above, Call("<=", (column, upper), BOOLEAN)), BOOLEAN)
