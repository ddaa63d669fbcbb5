"""Rows sorted so that similar values of several columns lie together (Z-order).

Each column's values are ranked by a sample, and the bits of the ranks are interleaved. The sample
also determines the cuts of the curve, so that the rows are not computed once more for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType

from engine.spark.columns import column

_CURVE = "__lake_curve"
_SAMPLE_ROWS = 50_000
_MAX_BITS = 12
_MAX_LENGTH = 128


@dataclass(frozen=True)
class RankBoundaries:
    """The boundaries of each column's ranks."""

    boundaries: tuple[pa.Array, ...]
    bits: int

    def curve(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return the position on the curve of each row."""
        pairs = zip(columns, self.boundaries, strict=True)
        ranks = [_rank_values(values, boundaries) for values, boundaries in pairs]
        keys = np.zeros(len(columns[0]), dtype=np.int64)
        place = self.bits * len(ranks)
        for bit in range(self.bits - 1, -1, -1):
            for rank in ranks:
                place -= 1
                keys |= ((rank >> bit) & 1) << place
        return keys


@dataclass(frozen=True)
class ZOrderCurve:
    """The curve through the rows, and its cuts into pieces.

    Attributes:
        ranks: compute a row's position on it.
        cuts: the first position of each piece but the first, ascending.
    """

    ranks: RankBoundaries
    cuts: npt.NDArray[np.int64]

    @classmethod
    def fit(cls, sample: pa.Table, pieces: int) -> "ZOrderCurve":
        """Fit a curve to a sample's columns, cut into pieces of about equal numbers of its rows."""
        bits = min(_MAX_BITS, 62 // sample.num_columns)
        sampled = [values.combine_chunks() for values in sample.columns]
        ranks = RankBoundaries(tuple(boundaries_of(values, bits) for values in sampled), bits)
        places = np.sort(ranks.curve(sampled))
        firsts = (np.arange(1, pieces) * len(places) // pieces)[: len(places)]
        return cls(ranks, np.unique(places[firsts]))

    def place(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the position of each row on the curve, and the number of its piece."""
        places = self.ranks.curve(columns)
        pieces = np.searchsorted(self.cuts, places, side="right").astype(np.int32)
        return pa.StructArray.from_arrays([pa.array(places), pa.array(pieces)], ["place", "piece"])


@dataclass(frozen=True)
class RankSample:
    """Representative rows and their approximate number; some of them are ranked."""

    rows: DataFrame
    count: int

    def values(self, columns: Sequence[Column]) -> pa.Table:
        """Return the columns of some of the rows."""
        values = [value.alias(f"c{i}") for i, value in enumerate(columns)]
        share = min(1.0, _SAMPLE_ROWS / max(1, self.count))
        picked = _shorten_values(self.rows.select(*values)).sample(fraction=share, seed=1)
        return picked.limit(2 * _SAMPLE_ROWS).toArrow()


def sort_by_zorder(
    frame: DataFrame,
    columns: Sequence[Column],
    partitions: Sequence[Column],
    pieces: int,
    sample: RankSample,
) -> DataFrame:
    """Sort the rows along the curve, in `pieces` of about the same size.

    Args:
        frame: the rows.
        columns: the columns to order by, plain values.
        partitions: the columns before them in the order.
        pieces: how many.
        sample: rows of the same columns.
    """
    curve = ZOrderCurve.fit(sample.values(columns), pieces)

    def place(*arrays: pa.Array) -> pa.Array:
        return curve.place(arrays)

    place.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    udf = F.arrow_udf(place, "place long, piece int")  # type: ignore[attr-defined] # missing in its stubs
    placed = frame.withColumn(_CURVE, udf(*columns))
    on_curve = column(_CURVE)
    if partitions:
        parted = placed.repartitionByRange(pieces, *partitions, on_curve.getField("place"))
    else:
        parted = placed.repartitionById(pieces, on_curve.getField("piece"))
    return parted.sortWithinPartitions(*partitions, on_curve.getField("place"))


def _shorten_values(frame: DataFrame) -> DataFrame:
    """Cut long values to their first characters, which suffice to rank them on the driver."""
    columns = [
        F.substring(F.col(field.name), 1, _MAX_LENGTH).alias(field.name)
        if isinstance(field.dataType, StringType | BinaryType)
        else F.col(field.name)
        for field in frame.schema
    ]
    return frame.select(*columns)


def boundaries_of(values: pa.Array, bits: int) -> pa.Array:
    """Return at most 2^bits - 1 values that divide a sample into about equal shares."""
    present = pc.drop_null(values)
    count = min(len(present), (1 << bits) - 1)
    picked = np.linspace(0, len(present) - 1, count).astype(np.int64)
    ordered = present.take(pc.array_sort_indices(present).take(pa.array(picked)))
    return pc.unique(ordered)


def _rank_values(values: pa.Array, boundaries: pa.Array) -> npt.NDArray[np.int64]:
    """Rank each value by the number of boundaries at or below it; null ranks lowest."""
    together = pa.concat_arrays([boundaries.cast(values.type), values])
    order = pc.array_sort_indices(together).to_numpy()
    is_boundary = order < len(boundaries)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order[~is_boundary] - len(boundaries)] = np.cumsum(is_boundary)[~is_boundary]
    if values.null_count:
        ranks[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return ranks
