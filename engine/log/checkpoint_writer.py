"""Writing checkpoints: a version's state in one Parquet file (v1) or a manifest with sidecars (v2).

A checkpoint saves readers the commits before it. It holds the reconciled state: live files,
tombstones still needed by VACUUM, the protocol, the metadata, applications and domains.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions.checkpoint import CheckpointMetadata, Sidecar
from engine.actions.codec import Action, encode
from engine.clock import surely_ms
from engine.log.file_table import DELETION_VECTOR, FILES, TOMBSTONES, camel
from engine.log.parsed_columns import parse_partition_columns, parse_statistics
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
from engine.protocol.properties import TableProperties
from engine.storage.base import Store, put_fresh

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
