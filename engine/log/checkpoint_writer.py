"""Writing checkpoints: a version's state in one Parquet file (v1) or a manifest with sidecars (v2).

A checkpoint saves readers the commits before it. It holds the reconciled state: live files,
tombstones still needed by VACUUM, the protocol, the metadata, applications and domains.

`stats` and `partitionValues` also become typed columns (protocol: Checkpoint Schema). A value of
another type than its column's is omitted: a missing bound rules out no file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CheckpointMetadata, Sidecar
from engine.actions.statistics import may_lack_seconds
from engine.actions.table import Metadata
from engine.clock import surely_ms
from engine.errors import MalformedLogError
from engine.log.file_table import DELETION_VECTOR, FILES, TOMBSTONES, camel
from engine.log.paths import (
    LAST_CHECKPOINT,
    SIDECAR_DIRECTORY,
    checkpoint_path,
    sidecar_path,
    v2_checkpoint_path,
)
from engine.log.replay import TableState
from engine.log.segment import read_hint
from engine.protocol.clustering import CLUSTERING_DOMAIN, clustering_paths
from engine.protocol.features import has_feature
from engine.protocol.indexed_columns import IndexedColumns
from engine.protocol.properties import TableProperties
from engine.schema.arrow import to_arrow_type
from engine.schema.column_mapping import column_mapping_mode, physical_name
from engine.schema.column_paths import ColumnPath
from engine.schema.partition_values import parse_stored_value, partition_array
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
from engine.storage.base import Store, put_fresh

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
        arrays["nullCount"] = _struct(
            _values_of_field(rows, "nullCount"),
            _map_leaf_types(columns, lambda _: PrimitiveType("long")),
        )
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


_INT32_FIELDS = {"offset", "size_in_bytes"}
_STRING_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.field("element", pa.string()))
_PROTOCOL = pa.struct(
    [
        pa.field("minReaderVersion", pa.int32()),
        pa.field("minWriterVersion", pa.int32()),
        pa.field("readerFeatures", _STRINGS),
        pa.field("writerFeatures", _STRINGS),
    ]
)
_METADATA = pa.struct(
    [
        pa.field("id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("description", pa.string()),
        pa.field(
            "format",
            pa.struct([pa.field("provider", pa.string()), pa.field("options", _STRING_MAP)]),
        ),
        pa.field("schemaString", pa.string()),
        pa.field("partitionColumns", _STRINGS),
        pa.field("configuration", _STRING_MAP),
        pa.field("createdTime", pa.int64()),
    ]
)
_TRANSACTION = pa.struct(
    [
        pa.field("appId", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("lastUpdated", pa.int64()),
    ]
)
_DOMAIN = pa.struct(
    [
        pa.field("domain", pa.string()),
        pa.field("configuration", pa.string()),
        pa.field("removed", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A written checkpoint, with the fields of `_last_checkpoint`."""

    version: int
    path: str
    action_count: int
    size_bytes: int
    add_count: int


def write_checkpoint(
    store: Store, state: TableState, properties: TableProperties, now_ms: int
) -> WrittenCheckpoint:
    """Write the checkpoint of a version, and point `_last_checkpoint` at it.

    A table with `delta.checkpointPolicy` v2 gets a v2 checkpoint, others a classic one.

    Raises:
        StorageError: it could not be written; the table remains valid without it.
    """
    tombstones = keep_tombstones(state, properties, now_ms)
    if properties.checkpoint_policy == "v2" and has_feature(state.protocol, "v2Checkpoint"):
        written = _write_v2(store, state, properties, tombstones)
    else:
        written = _write_classic(store, state, properties, tombstones)
    _point_at(store, written)
    return written


def keep_tombstones(state: TableState, properties: TableProperties, now_ms: int) -> pa.Table:
    """Return the tombstones younger than `delta.deletedFileRetentionDuration`.

    Their times come from the clocks of their writers.
    """
    deleted = pc.fill_null(state.tombstones.column("deletion_timestamp"), 0)
    return state.tombstones.filter(
        pc.greater(deleted, now_ms - surely_ms(properties.deleted_file_retention_ms))
    )


def _write_classic(
    store: Store, state: TableState, properties: TableProperties, tombstones: pa.Table
) -> WrittenCheckpoint:
    columns = _small_columns(state)
    columns["add"] = add_structs(state, properties)
    columns["remove"] = remove_structs(tombstones)
    table = _stack_rows(columns)
    path = checkpoint_path(state.version)
    data = _parquet(table)
    store.put(path, data)
    return WrittenCheckpoint(state.version, path, table.num_rows, len(data), state.files.num_rows)


def _write_v2(
    store: Store, state: TableState, properties: TableProperties, tombstones: pa.Table
) -> WrittenCheckpoint:
    """Write file actions to one sidecar, and the others as JSON lines to the manifest."""
    adds = add_structs(state, properties)
    rows = _stack_rows({"add": adds, "remove": remove_structs(tombstones)})
    sidecar_data = _parquet(rows)
    place = sidecar_path()
    put_fresh(store, place, sidecar_data)
    status = store.stat(place)
    sidecar = Sidecar(
        path=place.removeprefix(f"{SIDECAR_DIRECTORY}/"),
        size_in_bytes=len(sidecar_data),
        modification_time=status.modified_ms if status else 0,
    )
    actions: list[Action] = [
        CheckpointMetadata(version=state.version),
        sidecar,
        state.protocol,
        state.metadata,
        *state.set_transactions.values(),
        *state.domains.values(),
    ]
    data = "".join(f"{encode(action)}\n" for action in actions).encode()
    path = v2_checkpoint_path(state.version, "json")
    put_fresh(store, path, data)
    count = len(actions) + rows.num_rows
    size = len(data) + len(sidecar_data)
    return WrittenCheckpoint(state.version, path, count, size, state.files.num_rows)


def _point_at(store: Store, written: WrittenCheckpoint) -> None:
    """Write the hint, unless a newer checkpoint has one."""
    last_hint = read_hint(store)
    if last_hint is not None and last_hint > written.version:
        return
    hint = {
        "version": written.version,
        "size": written.action_count,
        "sizeInBytes": written.size_bytes,
        "numOfAddFiles": written.add_count,
    }
    store.put(LAST_CHECKPOINT, msgspec.json.encode(hint))


def add_structs(state: TableState, properties: TableProperties) -> pa.Array:
    """Convert live files to `add` structs of a checkpoint.

    Statistics are included as JSON text, as structs, both or neither, according to the properties.
    """
    columns = _file_columns(state.files, FILES)
    if not properties.write_stats_as_json:
        del columns["stats"]
    if properties.write_stats_as_struct:
        stats = state.files.column("stats")
        values = state.files.column("partition_values")
        columns["partitionValues_parsed"] = parse_partition_columns(values, state.metadata)
        clustering = clustering_paths(state.domains.get(CLUSTERING_DOMAIN))
        columns["stats_parsed"] = parse_statistics(stats, state.metadata, properties, clustering)
    present = {name: array for name, array in columns.items() if array is not None}
    return pa.StructArray.from_arrays(list(present.values()), names=list(present))


def remove_structs(tombstones: pa.Table) -> pa.Array:
    """Convert tombstones to `remove` structs of a checkpoint."""
    columns = _file_columns(tombstones, TOMBSTONES)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _file_columns(rows: pa.Table, schema: pa.Schema) -> dict[str, pa.Array | None]:
    columns: dict[str, pa.Array | None] = {}
    for field in schema:
        if field.name == "dv_id":
            continue
        array = _one_array(rows.column(field.name))
        columns[camel(field.name)] = (
            _descriptor_structs(array) if field.name == "deletion_vector" else array
        )
    columns["dataChange"] = pa.repeat(pa.scalar(False), rows.num_rows)
    return columns


def _descriptor_structs(array: pa.StructArray) -> pa.StructArray:
    leaves = []
    for field, leaf in zip(DELETION_VECTOR, array.flatten(), strict=True):
        leaves.append(leaf.cast(pa.int32()) if field.name in _INT32_FIELDS else leaf)
    names = [camel(field.name) for field in DELETION_VECTOR]
    return pa.StructArray.from_arrays(leaves, names=names, mask=array.is_null())


def _small_columns(state: TableState) -> dict[str, pa.Array]:
    """Return the non-file actions, one array of structs per kind."""
    metadata = {**_fields(state.metadata), "format": _fields(state.metadata.format)}
    metadata["configuration"] = list(state.metadata.configuration.items())
    metadata["format"]["options"] = list(state.metadata.format.options.items())
    transactions = [_fields(set_transaction) for set_transaction in state.set_transactions.values()]
    domains = [_fields(domain) for domain in state.domains.values()]
    return {
        "protocol": pa.array([_fields(state.protocol)], _PROTOCOL),
        "metaData": pa.array([metadata], _METADATA),
        "txn": pa.array(transactions, _TRANSACTION),
        "domainMetadata": pa.array(domains, _DOMAIN),
    }


def _fields(action: msgspec.Struct) -> dict[str, Any]:
    names = zip(action.__struct_fields__, action.__struct_encode_fields__, strict=True)
    return {encoded: getattr(action, name) for name, encoded in names}


def _stack_rows(columns: Mapping[str, pa.Array]) -> pa.Table:
    """Stack actions, one per row: each kind under its own column, null in the others."""
    total = sum(len(array) for array in columns.values())
    stacked, before = [], 0
    for array in columns.values():
        after = total - before - len(array)
        chunks = [pa.nulls(before, array.type), array, pa.nulls(after, array.type)]
        stacked.append(pa.chunked_array(chunks, array.type))
        before += len(array)
    return pa.table(stacked, names=list(columns))


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
