"""Ranges of a MERGE's source keys: every matching target row lies within them.

ON compares a column of the target with a value of the source, and the source is read once. Target
rows outside the ranges are read neither by the MERGE nor for its conflicts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.analysed_merge import plain_equal_sides
from engine.expressions.traits import is_deterministic, split_conjuncts
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


Bounds: TypeAlias = Sequence[tuple[object, object] | None]
"""The minimum and maximum of each value, both None if all are null; None instead of both if Python
cannot represent them: its calendar has the years 1 to 9999.
"""


def source_ranges(
    on: Expression, bounds_of: Callable[[Sequence[Expression]], Bounds]
) -> list[Expression]:
    """Return conditions over the target's own columns, one per equality of ON with known bounds.

    `bounds_of` reads the source's rows.
    """
    keys = list(_keys(on))
    bounds = bounds_of([value for _, value in keys]) if keys else []
    return [
        _build_range(column, value.type, *ends)
        for (column, value), ends in zip(keys, bounds, strict=True)
        if ends is not None
    ]


def bounds_by_spark(source: DataFrame, values: Sequence[Expression]) -> Bounds:
    """Return the bounds of values over a DataFrame."""
    both = []
    for i, value in enumerate(values):
        key = to_column(value)
        both += [F.min(key).alias(f"low{i}"), F.max(key).alias(f"high{i}")]
    row = source.alias("source").agg(*both).toArrow()
    columns = [[row.column(f"{end}{i}")[0] for end in ("low", "high")] for i in range(len(values))]
    return [ends_of(low, high) for low, high in columns]


def ends_of(low: pa.Scalar, high: pa.Scalar) -> tuple[object, object] | None:
    """Return the bounds as Python values, None if Python cannot represent them."""
    try:
        return low.as_py(), high.as_py()
    except (OverflowError, ValueError):
        return None


def _keys(on: Expression) -> Iterator[tuple[Column, Expression]]:
    for mine, other in filter(None, map(plain_equal_sides, split_conjuncts(on))):
        if not (isinstance(mine, Column) and len(mine.path) == 1 and is_deterministic(other)):
            continue
        if _is_comparable(mine.type, other.type):
            yield Column(mine.path, mine.type), other


def _is_comparable(target: DataType, source: DataType) -> bool:
    if target in _INTEGERS and source in _INTEGERS:
        return True
    return target == source and (target in _ORDERED or isinstance(target, DecimalType))


def _build_range(column: Column, data_type: DataType, low: object, high: object) -> Expression:
    """Build the condition for keys in a range; FALSE without bounds, as null keys equal nothing."""
    if low is None or high is None:
        return FALSE
    lower = Literal(cast("Value", low), data_type)
    upper = Literal(cast("Value", high), data_type)
    if lower == upper:
        return Call("=", (column, lower), BOOLEAN)
    above = Call(">=", (column, lower), BOOLEAN)
    return Call("and", (above, Call("<=", (column, upper), BOOLEAN)), BOOLEAN)
