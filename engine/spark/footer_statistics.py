"""Statistics of a data file from its Parquet footer (protocol: Per-file Statistics).

Bounds that a footer does not guarantee are left out: a missing bound skips nothing and loses no
row. Keys are physical column names.
"""

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.protocol.indexed_columns import IndexedColumns
from engine.schema.column_paths import ColumnPath
from engine.schema.types import DataType, DecimalType, PrimitiveType, StructType, iter_nested
from engine.snapshot.legacy_calendar import LegacyTimes, legacy_times

_TIE_BREAKER = "\U0010ffff"
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_BITS = {"INT32": 32, "INT64": 64}
_TIMES = _MOMENTS | {"date"}
_FLOATS = {
    "float": {("FLOAT", "None")},
    "double": {("FLOAT", "None"), ("DOUBLE", "None")},
}
_FORMS = {"string": ("BYTE_ARRAY", "String"), "date": ("INT32", "Date")}
_READERS: Mapping[str, Callable[[Any], Any]] = {"string": bytes.decode, "date": int}
_MICROSECONDS = {"milliseconds": 1000, "microseconds": 1}
_EXACT = Context(prec=76)
_Reader = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODER = msgspec.json.Encoder(decimal_format="number")


@dataclass(slots=True)
class _Leaf:
    """The row groups' statistics of one column. Bounds are microseconds, days or plain values."""

    null_count: int = 0
    is_counted: bool = True
    is_bounded: bool = True
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True)
class FooterStatistics:
    """Converts a footer into statistics.

    Args:
        schema: the table's data columns under physical names. A file may hold fewer, or in another
            order.
        indexed: the leaves that get statistics.
    """

    schema: StructType
    indexed: IndexedColumns = field(default_factory=IndexedColumns)

    def to_json(
        self, footer: pq.FileMetaData, with_nan: Collection[ColumnPath] | None = frozenset()
    ) -> str:
        """Return the `stats` text of an add.

        Args:
            footer: the file's footer.
            with_nan: leaves that hold NaN, which Parquet's bounds leave out. None for a file of
                another program: its NaNs are unknown, and so is its order of decimals kept as
                bytes.
        """
        nulls: dict[str, Any] = {}
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        for path, kind, leaf in self._iter_leaves(footer, is_own=with_nan is not None):
            if leaf.is_counted:
                _put(nulls, path, leaf.null_count)
            if not leaf.is_bounded or path in (with_nan or ()):
                continue
            low, high = _as_json(kind, leaf, self.indexed.prefix_length)
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

    def _iter_leaves(
        self, footer: pq.FileMetaData, *, is_own: bool
    ) -> Iterator[tuple[ColumnPath, DataType, _Leaf]]:
        """Yield the indexed leaves of the file: path, type in the table, sums."""
        columns, calendar = _columns_by_path(footer), legacy_times(footer)
        fields = iter_nested(self.schema.fields)
        leaves = (pair for pair in fields if not isinstance(pair[1].type, StructType))
        for position, (path, column) in enumerate(leaves):
            place = columns.get(path)
            if place is None or not self.indexed.covers(position, path):
                continue
            stored = footer.schema.column(place)
            reader = _choose_reader(stored, column.type, calendar, is_own=is_own)
            leaf = _Leaf()
            for group in range(footer.num_row_groups):
                _take(leaf, footer.row_group(group).column(place), reader)
            yield path, column.type, leaf


def _choose_reader(
    column: pq.ColumnSchema, kind: DataType, calendar: LegacyTimes | None, *, is_own: bool
) -> _Reader | None:
    """Return the conversion of a raw bound of a column to a value of a type; None if there is none.

    A column has bounds only if every Parquet writer orders its values as the type does. INT96,
    nanoseconds, unsigned integers, intervals, times of day and types stored as bytes have none, nor
    have dates and times of files that may use the Julian calendar.
    """
    logical: dict[str, Any] = msgspec.json.decode(column.logical_type.to_json())
    if isinstance(kind, DecimalType):
        return _decimal_reader(column, kind, logical, is_own=is_own)
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    if name in _TIMES and calendar is not None and calendar.dates:
        return None
    return _plain_reader(name, (column.physical_type, logical["Type"]), logical, is_own=is_own)


def _plain_reader(
    name: str, stored: tuple[str, str], logical: Mapping[str, Any], *, is_own: bool
) -> _Reader | None:
    reader: _Reader | None = None
    if name in _INTEGERS:
        is_signed = stored[1] == "None" or (stored[1] == "Int" and logical["isSigned"])
        bits = logical.get("bitWidth", _BITS.get(stored[0], 0))
        reader = int if is_signed and 0 < bits <= _INTEGERS[name] else None
    elif name in _FLOATS:
        reader = float if is_own and stored in _FLOATS[name] else None
    elif name in _MOMENTS:
        is_same_kind = logical.get("isAdjustedToUTC") == (name == "timestamp")
        scale = _MICROSECONDS.get(logical.get("timeUnit", ""), 0)
        is_moment = is_same_kind and scale and stored == ("INT64", "Timestamp")
        reader = partial(operator.mul, scale) if is_moment else None
    elif stored == _FORMS.get(name):
        reader = _READERS[name]
    return reader


def _decimal_reader(
    column: pq.ColumnSchema, kind: DecimalType, logical: Mapping[str, Any], *, is_own: bool
) -> _Reader | None:
    """Return the conversion of a raw decimal; None if it is not a decimal, or has too many digits."""
    if logical["Type"] != "Decimal":
        return None
    scale, whole = logical["scale"], logical["precision"] - logical["scale"]
    if scale > kind.scale or whole > kind.precision - kind.scale:
        return None
    if column.physical_type in {"INT32", "INT64"}:
        return lambda raw: Decimal(raw).scaleb(-scale, _EXACT)
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY" and is_own:
        return lambda raw: Decimal(int.from_bytes(raw, signed=True)).scaleb(-scale, _EXACT)
    return None


def _columns_by_path(footer: pq.FileMetaData) -> dict[ColumnPath, int]:
    """Return the Parquet columns outside lists and maps by the names along their path.

    A name may hold dots; the paths of the Parquet schema do not distinguish them from struct
    fields.
    """
    try:
        schema = footer.schema.to_arrow_schema()
    except (pa.ArrowException, ValueError):
        return {}  # Arrow knows no such schema
    leaves = [leaf for column in schema for leaf in _iter_stored(column.type, (column.name,))]
    places = {path: place for place, (path, is_plain) in enumerate(leaves) if is_plain}
    is_same = len(leaves) == footer.num_columns and all(
        footer.schema.column(place).path == ".".join(path) for path, place in places.items()
    )
    return places if is_same else {}


def _iter_stored(
    kind: pa.DataType, path: ColumnPath, *, is_plain: bool = True
) -> Iterator[tuple[ColumnPath, bool]]:
    """Yield the path of each Parquet column of a type, and whether it is outside lists and maps."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not pa.types.is_nested(kind):
        yield path, is_plain
        return
    is_struct = is_plain and pa.types.is_struct(kind)
    for child in (kind.field(place) for place in range(kind.num_fields)):
        yield from _iter_stored(child.type, (*path, child.name), is_plain=is_struct)


def _take(leaf: _Leaf, chunk: pq.ColumnChunkMetaData, reader: _Reader | None) -> None:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        leaf.is_counted = leaf.is_bounded = False
        return
    leaf.null_count += statistics.null_count
    if statistics.null_count == chunk.num_values:
        return
    if reader is None or not statistics.has_min_max:
        leaf.is_bounded = False
        return
    try:
        low, high = reader(statistics.min_raw), reader(statistics.max_raw)
    except ValueError:  # not UTF-8
        leaf.is_bounded = False
        return
    leaf.is_bounded = leaf.is_bounded and low <= high
    leaf.low = low if leaf.low is None else min(leaf.low, low)
    leaf.high = high if leaf.high is None else max(leaf.high, high)


def _as_json(kind: DataType, leaf: _Leaf, prefix_length: int) -> tuple[Any, Any]:
    """Return the bounds as JSON values, (None, None) if they cannot be written."""
    if leaf.low is None or leaf.high is None:
        return None, None
    name = kind.name if isinstance(kind, PrimitiveType) else "decimal"
    try:
        return _lower(name, leaf.low, prefix_length), _upper(name, leaf.high, prefix_length)
    except (OverflowError, ValueError):
        return None, None


def _lower(name: str, value: Any, prefix_length: int) -> Any:  # noqa: ANN401 - JSON
    if name == "string":
        return value[:prefix_length]
    if name in _MOMENTS:
        return _moment(value // 1000, name)
    return _plain(name, value)


def _upper(name: str, value: Any, prefix_length: int) -> Any:  # noqa: ANN401 - JSON
    if name == "string":
        return _cut_above(value, prefix_length)
    if name in _MOMENTS:
        return _moment(-(-value // 1000), name)
    return _plain(name, value)


def _cut_above(text: str, end: int) -> str:
    """Truncate a text to an upper bound: the cut moves past characters that nothing exceeds."""
    while text[end : end + 1] == _TIE_BREAKER:
        end += 1
    return text if end >= len(text) else text[:end] + _TIE_BREAKER


def _plain(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if name == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        msg = "JSON has no infinity"
        raise ValueError(msg)
    return value


def _moment(epoch_ms: int, name: str) -> str:
    text = (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + ("Z" if name == "timestamp" else "")


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:  # noqa: ANN401 - JSON
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value
