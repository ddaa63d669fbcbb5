"""Statistics of a data file from its Parquet footer (protocol: Per-file Statistics).

What a footer cannot promise is left out: a missing bound skips nothing and loses no row.
Keys are physical column names.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow.parquet as pq

from engine.schema.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

MAX_STRING_LENGTH = 32
_TIE_BREAKER = "\U0010ffff"
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
_NUMBERS = frozenset({"long", "integer", "short", "byte", "float", "double"})
_ORDERED = _NUMBERS | _MOMENTS | {"string", "date"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RAW_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])  # bounds keep their digits
_ENCODER = msgspec.json.Encoder(decimal_format="number")


@dataclass(slots=True)
class _Leaf:
    """What the row groups say of one column."""

    type: DataType
    null_count: int = 0
    counted: bool = True
    bounded: bool = True
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """Which leaves get statistics: the first `count` (-1: all), or those at or below `paths`."""

    count: int = 32
    paths: tuple[tuple[str, ...], ...] | None = None

    def covers(self, position: int, path: tuple[str, ...]) -> bool:
        """Whether the leaf at that position in the schema is indexed."""
        if self.paths is not None:
            return any(path[: len(prefix)] == prefix for prefix in self.paths)
        return self.count < 0 or position < self.count


@dataclass(frozen=True, slots=True)
class FooterStatistics:
    """How to turn a footer into statistics.

    Args:
        schema: the file's schema under physical names, in the file's column order.
        indexed: which leaves are wanted.
    """

    schema: StructType
    indexed: IndexedColumns = field(default_factory=IndexedColumns)

    def to_json(
        self, footer: pq.FileMetaData, unbounded: frozenset[tuple[str, ...]] = frozenset()
    ) -> str:
        """The `stats` text of an add.

        Args:
            footer: the file's footer.
            unbounded: leaves whose bounds are not to be trusted (they hold NaN).
        """
        leaves = self._read(footer)
        nulls: dict[str, Any] = {}
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        for path, leaf in leaves.items():
            if leaf.counted:
                _put(nulls, path, leaf.null_count)
            low, high = _bounds(leaf) if leaf.bounded and path not in unbounded else (None, None)
            if low is not None and high is not None:
                _put(lows, path, low)
                _put(highs, path, high)
        stats = {
            "numRecords": footer.num_rows,
            "minValues": lows,
            "maxValues": highs,
            "nullCount": nulls,
            "tightBounds": True,
        }
        return _ENCODER.encode(stats).decode()

    def _read(self, footer: pq.FileMetaData) -> dict[tuple[str, ...], _Leaf]:
        leaves: dict[tuple[str, ...], _Leaf] = {}
        for position, (column, path, data_type) in enumerate(_iter_leaves(self.schema)):
            if not isinstance(data_type, ArrayType | MapType) and self.indexed.covers(
                position, path
            ):
                leaf = leaves[path] = _Leaf(data_type)
                for group in range(footer.num_row_groups):
                    _take(leaf, footer.row_group(group).column(column))
        return leaves


def _iter_leaves(
    schema: StructType, prefix: tuple[str, ...] = (), start: int = 0
) -> Iterator[tuple[int, tuple[str, ...], DataType]]:
    """Leaves outside lists and maps, and these as wholes: first Parquet column, path, type."""
    column = start
    for child in schema:
        path = (*prefix, child.name)
        if isinstance(child.type, StructType):
            yield from _iter_leaves(child.type, path, column)
        else:
            yield column, path, child.type
        column += _leaf_count(child.type)


def _leaf_count(data_type: DataType) -> int:
    match data_type:
        case StructType(fields):
            return sum(_leaf_count(child.type) for child in fields)
        case ArrayType(element, _):
            return _leaf_count(element)
        case MapType(key, value, _):
            return _leaf_count(key) + _leaf_count(value)
        case _:
            return 1


def _take(leaf: _Leaf, chunk: pq.ColumnChunkMetaData) -> None:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        leaf.counted = leaf.bounded = False
        return
    leaf.null_count += statistics.null_count
    if statistics.null_count == chunk.num_values:
        return
    if not statistics.has_min_max or not _is_ordered(leaf.type):
        leaf.bounded = False
        return
    low, high = _values(leaf.type, statistics)
    leaf.low = low if leaf.low is None else min(leaf.low, low)
    leaf.high = high if leaf.high is None else max(leaf.high, high)


def _is_ordered(data_type: DataType) -> bool:
    return isinstance(data_type, DecimalType) or (
        isinstance(data_type, PrimitiveType) and data_type.name in _ORDERED
    )


def _values(data_type: DataType, statistics: Any) -> tuple[Any, Any]:  # noqa: ANN401 - pyarrow's
    if isinstance(data_type, PrimitiveType) and data_type.name in {
        "date",
        "timestamp",
        "timestamp_ntz",
    }:
        return statistics.min_raw, statistics.max_raw
    return statistics.min, statistics.max


def _bounds(leaf: _Leaf) -> tuple[Any, Any]:
    """The bounds as JSON values, (None, None) where they cannot be written."""
    if leaf.low is None or leaf.high is None:
        return None, None
    name = leaf.type.name if isinstance(leaf.type, PrimitiveType) else "decimal"
    try:
        return _lower(name, leaf.low), _upper(name, leaf.high)
    except (OverflowError, ValueError):
        return None, None


def _lower(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if name == "string":
        return str(value)[:MAX_STRING_LENGTH]
    if name in _MOMENTS:
        return _moment(value // 1000, name)
    return _plain(name, value)


def _upper(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if name == "string":
        return _cut_above(str(value))
    if name in _MOMENTS:
        return _moment(-(-value // 1000), name)
    return _plain(name, value)


def _cut_above(text: str) -> str:
    """A text that is not below the whole one: it goes on over characters that nothing exceeds."""
    end = MAX_STRING_LENGTH
    while text[end : end + 1] == _TIE_BREAKER:
        end += 1
    return text if end >= len(text) else text[:end] + _TIE_BREAKER


def _plain(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if name == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        msg = "JSON has no infinity"
        raise ValueError(msg)
    return value if isinstance(value, int | float | Decimal) else str(value)


def _moment(epoch_ms: int, name: str) -> str:
    text = (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + ("Z" if name == "timestamp" else "")


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:  # noqa: ANN401 - JSON
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def with_loose_bounds(stats: str | None, record_count: int) -> str:
    """The statistics of a file that gets a deletion vector: `tightBounds` false, rows counted."""
    parsed: dict[str, Any] = dict(_RAW_DECODER.decode(stats)) if stats else {}
    return _ENCODER.encode({**parsed, "numRecords": record_count, "tightBounds": False}).decode()
