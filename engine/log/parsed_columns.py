"""Typed columns for `stats` and `partitionValues` in checkpoints (protocol: Checkpoint Schema).

A value of another type than its column's is omitted: a missing bound rules out no file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.statistics import may_lack_seconds
from engine.actions.table import Metadata
from engine.errors import MalformedLogError
from engine.protocol.indexed_columns import IndexedColumns
from engine.protocol.properties import TableProperties
from engine.schema.arrow import to_arrow_type
from engine.schema.column_mapping import column_mapping_mode, physical_name
from engine.schema.column_paths import ColumnPath
from engine.schema.partition_arrays import partition_array
from engine.schema.partition_values import parse_stored_value
from engine.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
)

_DECODER = msgspec.json.Decoder()
_EXACT_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_BATCH_ROWS = 32_768
_FAILURES = (ValueError, TypeError, ArithmeticError, OverflowError, pa.ArrowException)


def parse_statistics(
    stats: pa.ChunkedArray,
    metadata: Metadata,
    properties: TableProperties,
    clustering: Sequence[ColumnPath] = (),
) -> pa.Array:
    """Return `stats_parsed` of every row, null without statistics.

    It has the number of rows even without column statistics: deletion vectors and row ids need it.
    """
    columns = choose_statistics_columns(metadata, properties, clustering)
    batches = [_statistics(batch.to_pylist(), columns) for batch in _iter_batches(stats)]
    return pa.concat_arrays(batches) if batches else _statistics([], columns)


def parse_partition_columns(values: pa.ChunkedArray, metadata: Metadata) -> pa.Array | None:
    """Return `partitionValues_parsed` of every row; None if the table is not partitioned."""
    mode = column_mapping_mode(metadata.configuration)
    schema = parse_schema(metadata.schema_string)
    fields = [named for name in metadata.partition_columns if (named := schema.get(name))]
    fields = [field for field in fields if _is_plain(field.type)]
    if not fields:
        return None
    names = [physical_name(field, mode) for field in fields]
    columns = [
        _partition_column(values, name, column.type)
        for name, column in zip(names, fields, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, names=names)


def choose_statistics_columns(
    metadata: Metadata, properties: TableProperties, clustering: Sequence[ColumnPath] = ()
) -> StructType:
    """Return the data columns with statistics, under physical names."""
    mode = column_mapping_mode(metadata.configuration)
    schema = parse_schema(metadata.schema_string)
    partitions = {name.lower() for name in metadata.partition_columns}
    fields = [field for field in schema if field.name.lower() not in partitions]
    return IndexedColumns.from_properties(schema, mode, properties, clustering).select(fields, mode)


# --- statistics ---


def _iter_batches(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in column.chunks:
        for start in range(0, len(chunk), _BATCH_ROWS):
            yield chunk.slice(start, _BATCH_ROWS)


def _statistics(texts: Sequence[str | None], columns: StructType) -> pa.StructArray:
    decoder = _EXACT_DECODER if _has_decimals(columns) else _DECODER
    rows = [_decode_stats(text, decoder) for text in texts]
    bounded = _columns_with_bounds(columns)
    arrays = {"numRecords": _leaf(_values_of_field(rows, "numRecords"), PrimitiveType("long"))}
    if bounded.fields:
        arrays["minValues"] = _struct(_values_of_field(rows, "minValues"), bounded)
        arrays["maxValues"] = _struct(_values_of_field(rows, "maxValues"), bounded)
    if columns.fields:
        arrays["nullCount"] = _struct(_values_of_field(rows, "nullCount"), _count_columns(columns))
    arrays["tightBounds"] = _leaf(_values_of_field(rows, "tightBounds"), PrimitiveType("boolean"))
    missing = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays), mask=missing)


def _has_decimals(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_decimals(field.type) for field in data_type)
    return isinstance(data_type, DecimalType)


def _decode_stats(text: str | None, decoder: msgspec.json.Decoder[Any]) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = decoder.decode(text)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _values_of_field(rows: Sequence[Any], name: str) -> list[Any]:
    return [row.get(name) if type(row) is dict else None for row in rows]


def _struct(rows: Sequence[Any], columns: StructType) -> pa.StructArray:
    arrays = []
    for column in columns:
        values = _values_of_field(rows, column.name)
        if isinstance(column.type, StructType):
            arrays.append(_struct(values, column.type))
        else:
            arrays.append(_leaf(values, column.type))
    return pa.StructArray.from_arrays(arrays, names=list(columns.names))


def _leaf(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Convert JSON values to the type, with null for invalid ones."""
    array = _convert_unchanged(values, data_type)
    if array is not None:
        return array
    clean = _decimal if isinstance(data_type, DecimalType) else _CLEANED[_name(data_type)]
    return _build_array([_clean_value(value, clean) for value in values], data_type)


def _convert_unchanged(values: Sequence[Any], data_type: DataType) -> pa.Array | None:
    """Build an array of the values as they are; return None if one needs cleaning."""
    name, kind = _name(data_type), to_arrow_type(data_type)
    present = set(map(type, values)) - {type(None)}
    if not present <= _WRITTEN_AS.get(name, frozenset()):
        return None
    if name == "timestamp" and any(value and may_lack_seconds(value) for value in values):
        return None
    try:
        if name in _WRITTEN_AS_TEXT:
            return pa.array(values, pa.string()).cast(kind)
        array = pa.array(values, kind)
    except _FAILURES:
        return None
    return array if name not in _FLOATS else pc.if_else(pc.is_finite(array), array, None)


def _build_array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    kind = to_arrow_type(data_type)
    try:
        return pa.array(values, kind)
    except _FAILURES:
        return pa.array([value if _fits(value, kind) else None for value in values], kind)


def _fits(value: Any, kind: pa.DataType) -> bool:  # noqa: ANN401 - any value
    try:
        pa.scalar(value, kind)
    except _FAILURES:
        return False
    return True


def _clean_value(value: Any, clean: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - JSON to a value
    if value is None:
        return None
    try:
        return clean(value)
    except _FAILURES:
        return None


def _columns_with_bounds(columns: StructType) -> StructType:
    """Return the columns of types with an order."""
    return _map_leaf_types(columns, lambda kind: kind if _has_bounds(kind) else None)


def _count_columns(columns: StructType) -> StructType:
    """Return the statistics columns as null counts."""
    return _map_leaf_types(columns, lambda _: PrimitiveType("long"))


def _map_leaf_types(
    columns: StructType, change: Callable[[DataType], DataType | None]
) -> StructType:
    fields = []
    for column in columns:
        inner = column.type
        kind = _map_leaf_types(inner, change) if isinstance(inner, StructType) else change(inner)
        if kind is not None and (not isinstance(kind, StructType) or kind.fields):
            fields.append(StructField(column.name, kind))
    return StructType(tuple(fields))


def _has_bounds(data_type: DataType) -> bool:
    return isinstance(data_type, DecimalType) or _name(data_type) in _CLEANED


def _name(data_type: DataType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else ""


def _whole(value: Any) -> int | None:  # noqa: ANN401 - JSON
    return value if type(value) is int else None


def _number(value: Any) -> float | None:  # noqa: ANN401 - JSON
    number = float(value) if type(value) in (int, float, Decimal) else None
    return number if number is not None and isfinite(number) else None


def _decimal(value: Any) -> Decimal | None:  # noqa: ANN401 - JSON
    return None if isinstance(value, bool) else Decimal(str(value))


def _date(value: Any) -> date | None:  # noqa: ANN401 - JSON
    return date.fromisoformat(value)


def _wall_clock(value: Any) -> datetime | None:  # noqa: ANN401 - JSON
    if may_lack_seconds(value):
        return None
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _moment(value: Any) -> datetime | None:  # noqa: ANN401 - JSON
    wall = _wall_clock(value)
    return None if wall is None else wall.replace(tzinfo=UTC)


_CLEANED: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("long", "integer", "short", "byte"), _whole),
    **dict.fromkeys(("float", "double"), _number),
    "boolean": lambda value: value if type(value) is bool else None,
    "string": lambda value: value if type(value) is str else None,
    "date": _date,
    "timestamp": _moment,
    "timestamp_ntz": _wall_clock,
}
_FLOATS = frozenset({"float", "double"})
_WRITTEN_AS_TEXT = frozenset({"date", "timestamp"})
_WRITTEN_AS: Mapping[str, frozenset[type]] = {
    **dict.fromkeys(("long", "integer", "short", "byte"), frozenset({int})),
    **dict.fromkeys(_FLOATS, frozenset({int, float})),
    **dict.fromkeys(_WRITTEN_AS_TEXT | {"string"}, frozenset({str})),
    "boolean": frozenset({bool}),
}


# --- partition values ---


def _is_plain(data_type: DataType) -> bool:
    return not isinstance(data_type, ArrayType | MapType | StructType) and _name(data_type) not in {
        "void",
        "variant",
    }


def _partition_column(values: pa.ChunkedArray, name: str, data_type: DataType) -> pa.Array:
    """Parse one partition column; each distinct text is parsed once."""
    chunks = [pc.map_lookup(chunk, name, "first") for chunk in values.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    distinct = [_check_partition_text(text, data_type) for text in encoded.dictionary.to_pylist()]
    return partition_array(distinct, data_type).take(encoded.indices)


def _check_partition_text(text: str | None, data_type: DataType) -> str | None:
    """Return the text if it is a value of the type, else None."""
    try:
        parse_stored_value(text, data_type)
    except MalformedLogError:
        return None
    return text
