"""Profile of a column at a version: nulls, distinct values, minimum and maximum."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import UnknownColumnError
from engine.expressions.evaluate import find_matches
from engine.expressions.parse import parse_condition
from engine.expressions.traits import columns_of
from engine.snapshot.bounded_rows import PERSON_BATCH_BYTES
from engine.snapshot.reader import iter_file
from engine.snapshot.row_pairs import normalize_floats
from engine.snapshot.snapshot import Snapshot

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class ProfileLimits:
    """Limits on the rows read and the values remembered."""

    rows: int = 5_000_000
    distinct_bytes: int = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """The profile over the rows read: all matching ones, unless `is_whole` is False.

    `distinct_count` excludes null, like COUNT(DISTINCT); None for nested types, or above the limit.
    `bounds` are the minimum and maximum, None if the type has no order or every value is null; NaN
    is above every number, as Spark orders it.
    """

    row_count: int
    null_count: int
    distinct_count: int | None
    bounds: pa.Array | None
    is_whole: bool


def profile_column(
    snapshot: Snapshot,
    column_name: str,
    condition: str = "",
    limits: ProfileLimits = ProfileLimits(),
) -> ColumnProfile:
    """Read one column and summarize it.

    Raises:
        UnknownColumnError, ExpressionError: the column does not exist, or the condition is invalid.
        DataFileError: a file was vacuumed away, or is damaged.
    """
    column = snapshot.schema.get(column_name)
    if column is None:
        msg = f"The table has no column {column_name[:200]}."
        way = f"It has {', '.join(snapshot.schema.names[:20])}."
        raise UnknownColumnError(msg, way, field="profile")
    where = parse_condition(condition, snapshot.schema) if condition else None
    names = {column.name} | ({path[0] for path in columns_of(where)} if where else set())
    columns_read = [name for name in snapshot.schema.names if name in names]
    sums = _Sums(limits)
    for add in snapshot.add_files(where):
        for rows in iter_file(
            snapshot, add, columns_read, batch_rows=_BATCH_ROWS, batch_bytes=PERSON_BATCH_BYTES
        ):
            matching = rows if where is None else rows.filter(find_matches(where, rows))
            if not sums.add(matching.column(column.name)):
                return sums.profile(is_whole=False)
    return sums.profile(is_whole=True)


class _Sums:
    """Running totals of a column."""

    def __init__(self, limits: ProfileLimits) -> None:
        self._limits = limits
        self._rows = self._nulls = 0
        self._seen: list[pa.Array] = []  # the first without duplicates, the others not yet merged
        self._bounds: list[pa.Array] = []
        self._counts_distinct = True

    def add(self, values: pa.ChunkedArray) -> bool:
        """Add values to the sums; return whether more may follow."""
        self._rows += len(values)
        self._nulls += values.null_count
        if pa.types.is_nested(values.type):
            self._counts_distinct = False
        else:
            self._remember(values.drop_null().combine_chunks())
        return self._rows < self._limits.rows

    def profile(self, *, is_whole: bool) -> ColumnProfile:
        self._merge()
        distinct = sum(map(len, self._seen))
        return ColumnProfile(
            row_count=self._rows,
            null_count=self._nulls,
            distinct_count=distinct if self._counts_distinct else None,
            bounds=_bounds(pa.concat_arrays(self._bounds)) if self._bounds else None,
            is_whole=is_whole,
        )

    def _remember(self, values: Any) -> None:  # noqa: ANN401 - an array of any type
        if not len(values):
            return
        distinct = normalize_floats(values).unique()
        if bounds := _bounds(distinct):
            self._bounds = [pa.concat_arrays([*self._bounds, bounds])]
        if self._counts_distinct:
            self._seen.append(distinct)
            if sum(part.nbytes for part in self._seen[1:]) > self._seen[0].nbytes:
                self._merge()

    def _merge(self) -> None:
        """Merge the values into one array without duplicates, or drop it above the size limit."""
        if self._counts_distinct and self._seen:
            self._seen = [pa.concat_arrays(self._seen).unique()]
            self._counts_distinct = self._seen[0].nbytes <= self._limits.distinct_bytes


def _bounds(values: pa.Array) -> pa.Array | None:
    """Return the minimum and maximum."""
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
        return None
    order = pc.sort_indices(values) if len(values) > 1 else pa.array([0] * len(values))
    return values.take(pa.array([order[0].as_py(), order[-1].as_py()])) if len(values) else None
