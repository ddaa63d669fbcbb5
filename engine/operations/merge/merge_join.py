"""Join of a small MERGE by Arrow, and the ranges of its source's keys.

The join returns pairs of row numbers. The ranges hold every matching target row if ON compares a
column of the target with a value of the source: target rows outside of them are read neither by the
MERGE nor for its conflicts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.merge import AnalyzedMerge, plain_equal_sides
from engine.errors import CannotEvaluateError
from engine.expressions.arrow_operators import together
from engine.expressions.evaluate import evaluate_arrow, find_matches
from engine.expressions.traits import conjunction, is_deterministic, replace_leaves, split_conjuncts
from engine.expressions.tree import FALSE, TRUE, Call, Column, Expression, Literal, Value, walk
from engine.expressions.types import INTEGRALS, common_type
from engine.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from engine.spark.columns import to_column

_MOST_PAIRS = 2_000_000
_MOST_PAIRED_BYTES = 512 * 1024 * 1024
_SOURCE = "\0source."
_KEYS = {*INTEGRALS, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ, BOOLEAN}
"""The key types Arrow joins exactly as Spark: null equals nothing, and there is no NaN."""
Numbers = NDArray[np.int64]

_INTEGERS = frozenset({BYTE, SHORT, INTEGER, LONG})
_ORDERED = _INTEGERS | {STRING, DATE, TIMESTAMP}


Bounds: TypeAlias = Sequence[tuple[object, object] | None]
"""The minimum and maximum of each value, both None if all are null; None instead of both if Python
cannot represent them: its calendar has the years 1 to 9999.
"""


@dataclass(frozen=True)
class Matcher:
    """Finds with Arrow the target rows of a MERGE that join its source or match a condition."""

    on: Expression
    source: pa.Table
    reached: tuple[Expression, ...]

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return a mask of the matching rows.

        Raises:
            CannotEvaluateError: Arrow cannot evaluate this exactly as Spark does; the two sides
                conflict.
        """
        mask = np.zeros(rows.num_rows, dtype=bool)
        mask[pairs(self.on, rows, self.source)[0]] = True
        matching = pa.array(mask)
        for condition in self.reached:
            matching = pc.or_(
                matching, find_matches(qualify_source(condition), rows).combine_chunks()
            )
        return matching


def qualify_source(tree: Expression) -> Expression:
    """Rename the source's columns in a tree, so it applies to one table of joined rows."""

    def qualify_leaf(leaf: Expression) -> Expression:
        if not isinstance(leaf, Column):
            return leaf
        path = leaf.path
        if leaf.relation == "source":
            path = (_SOURCE + path[0], *path[1:])
        return Column(path, leaf.type)

    return replace_leaves(tree, qualify_leaf)


def join_columns(target: pa.Table | None, source: pa.Table) -> pa.Table:
    """Join target rows with their source rows, column by column."""
    names = [_SOURCE + name for name in source.column_names]
    rows = source.rename_columns(names)
    if target is None:
        return rows
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        target = target.append_column(name, column)
    return target


def pair_rows(target: pa.Table, mine: Numbers, source: pa.Table, theirs: Numbers) -> pa.Table:
    """Pair target and source rows by number.

    Raises:
        CannotEvaluateError: the pairs take too much memory.
    """
    size = _row_bytes(target)[mine].sum() + _row_bytes(source)[theirs].sum()
    if size > _MOST_PAIRED_BYTES:
        msg = "The pairs of rows need too much memory to process without Spark."
        raise CannotEvaluateError(msg)
    return join_columns(target.take(mine), source.take(theirs))


def pairs(on: Expression, target: pa.Table, source: pa.Table) -> tuple[Numbers, Numbers]:
    """Join the rows by ON; return their target and source row numbers in target order.

    Raises:
        CannotEvaluateError: Arrow cannot evaluate ON exactly as Spark does, or the pairs are too
            many.
    """
    keys, rest = [], []
    for part in split_conjuncts(on):
        key = _key(part, target, source)
        rest += [] if key else [part]
        keys += [key] if key else []
    if keys:
        mine, theirs = _join_by_keys(keys, target.num_rows, source.num_rows)
    else:
        _check_count(target.num_rows * source.num_rows)
        mine = np.repeat(np.arange(target.num_rows), source.num_rows)
        theirs = np.tile(np.arange(source.num_rows), target.num_rows)
    residual = conjunction(rest)
    if residual == TRUE or not len(mine):
        return mine, theirs
    both = pair_rows(target, mine, source, theirs)
    mask = find_matches(qualify_source(residual), both).to_numpy()
    return mine[mask], theirs[mask]


def _key(part: Expression, target: pa.Table, source: pa.Table) -> tuple[pa.Array, pa.Array] | None:
    """Evaluate both sides of an equality in one type; None for any other condition."""
    sides = plain_equal_sides(part)
    if sides is None:
        return None
    mine, theirs = sides
    types = [mine.type, theirs.type]
    if common_type(types) not in _KEYS:
        return None
    values = [
        evaluate_arrow(qualify_source(mine), target).combine_chunks(),
        evaluate_arrow(qualify_source(theirs), join_columns(None, source)).combine_chunks(),
    ]
    (left, right), _ = together(values, types)
    return left, right


def _join_by_keys(
    keys: Sequence[tuple[pa.Array, pa.Array]], target_rows: int, source_rows: int
) -> tuple[Numbers, Numbers]:
    """Join two sides by equal keys (inner join); a null key joins nothing."""
    names = [f"key{i}" for i in range(len(keys))]
    target = _number_keys(names, [mine for mine, _ in keys], "target", target_rows)
    source = _number_keys(names, [theirs for _, theirs in keys], "source", source_rows)
    often = source.group_by(names).aggregate([([], "count_all")])
    counted = target.select(names).join(often, names, join_type="inner")
    _check_count(pc.sum(counted.column("count_all")).as_py() or 0)
    pairs = target.join(source, names, join_type="inner")
    mine, theirs = (pairs.column(name).to_numpy() for name in ("target", "source"))
    order = np.lexsort((theirs, mine))
    return mine[order], theirs[order]


def _number_keys(
    names: Sequence[str], keys: Sequence[pa.Array], number: str, count: int
) -> pa.Table:
    rows = pa.table([*keys, pa.array(np.arange(count))], names=[*names, number])
    for name in names:
        rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _row_bytes(rows: pa.Table) -> Numbers:
    """Estimate the bytes of each row: exactly for text, by the average for other columns."""
    sizes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
        elif rows.num_rows:
            sizes += 1 + column.nbytes // rows.num_rows
    return sizes


def _check_count(pairs: int) -> None:
    if pairs > _MOST_PAIRS:
        msg = f"{pairs:,} pairs of rows are too many to process without Spark."
        raise CannotEvaluateError(msg)


def source_bounds(values: Sequence[Expression], source: pa.Table) -> Bounds:
    """Return the minimum and maximum of expressions over the source."""
    rows, bounds = join_columns(None, source), []
    for value in values:
        least_and_greatest = pc.min_max(evaluate_arrow(qualify_source(value), rows))
        bounds.append(ends_of(least_and_greatest["min"], least_and_greatest["max"]))
    return bounds


def check_columns(merge: AnalyzedMerge, source: pa.Table) -> None:
    """Refuse a source whose columns Arrow cannot find by name: it would read them as null.

    Raises:
        CannotEvaluateError: Spark must resolve the names.
    """
    names = Counter(source.column_names)
    nodes = (node for tree in merge.expressions() for node in walk(tree))
    needed = {
        node.path[0] for node in nodes if isinstance(node, Column) and node.relation == "source"
    }
    if any(names[name] != 1 for name in needed):
        msg = "A column of the source appears twice or has a different name."
        raise CannotEvaluateError(msg)


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
