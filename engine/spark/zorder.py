"""Rows in an order that keeps rows with similar values of several columns together (Z-order).

Each column's values are ranked by a sample, and the bits of the ranks are interleaved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType

CURVE = "__lake_curve"
_SAMPLE_ROWS = 50_000
_MAX_BITS = 12
_MAX_LENGTH = 128


@dataclass(frozen=True)
class Ranks:
    """The boundaries of each column's ranks."""

    boundaries: tuple[npt.NDArray[Any], ...]
    bits: int

    def curve(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The position on the curve of each row."""
        pairs = zip(columns, self.boundaries, strict=True)
        ranks = [_ranked(values, boundaries) for values, boundaries in pairs]
        keys = np.zeros(len(columns[0]), dtype=np.int64)
        place = self.bits * len(ranks)
        for bit in range(self.bits - 1, -1, -1):
            for rank in ranks:
                place -= 1
                keys |= ((rank >> bit) & 1) << place
        return pa.array(keys, pa.int64())


def along_zorder(frame: DataFrame, columns: Sequence[Column], rows: int) -> DataFrame:
    """The rows with their place on the curve in CURVE.

    Args:
        frame: the rows.
        columns: what to order by, plain values.
        rows: about how many there are, to size the sample.
    """
    names = [f"c{i}" for i in range(len(columns))]
    values = [column.alias(name) for column, name in zip(columns, names, strict=True)]
    share = min(1.0, _SAMPLE_ROWS / max(1, rows))
    picked = _shortened(frame.select(*values)).sample(fraction=share, seed=1)
    sample = picked.limit(2 * _SAMPLE_ROWS).toArrow()
    bits = min(_MAX_BITS, 62 // len(columns))
    boundaries = tuple(boundaries_of(sample.column(name), bits) for name in names)
    ranks = Ranks(boundaries, bits)

    def curve(*arrays: pa.Array) -> pa.Array:
        return ranks.curve(arrays)

    curve.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    return frame.withColumn(CURVE, F.arrow_udf(curve, "long")(*columns))  # type: ignore[attr-defined] # missing in its stubs


def _shortened(frame: DataFrame) -> DataFrame:
    """Long values by how they begin, which ranks them as well: the sample comes to the driver."""
    columns = [
        F.substring(F.col(field.name), 1, _MAX_LENGTH).alias(field.name)
        if isinstance(field.dataType, StringType | BinaryType)
        else F.col(field.name)
        for field in frame.schema
    ]
    return frame.select(*columns)


def boundaries_of(column: pa.ChunkedArray, bits: int) -> npt.NDArray[Any]:
    """At most 2^bits - 1 values that part a sample into about equal shares."""
    values = np.sort(_comparable(pc.drop_null(column).combine_chunks()))
    count = min(len(values), (1 << bits) - 1)
    if not count:
        return values
    picked = values[np.linspace(0, len(values) - 1, count).astype(np.int64)]
    return np.unique(picked)


def _ranked(array: pa.Array, boundaries: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many boundaries are at or below each value; null ranks lowest."""
    ranks = np.zeros(len(array), dtype=np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if len(boundaries) and valid.any():
        present = _comparable(pc.drop_null(array))
        ranks[valid] = np.searchsorted(boundaries, present, side="right")
    return ranks


def _comparable(array: pa.Array) -> npt.NDArray[Any]:
    """Values that numpy can sort: numbers, or else Python's text and bytes."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers
