"""Live files and tombstones as Arrow tables: one row a logical file.

The columns carry the protocol's fields in snake_case. `dv_id` is the unique id of the deletion
vector: with `path` it is the file's identity.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from engine.actions.files import AddFile, DeletionVectorDescriptor, RemoveFile

STRING_MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        pa.field("storage_type", pa.string()),
        pa.field("path_or_inline_dv", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size_in_bytes", pa.int64()),
        pa.field("cardinality", pa.int64()),
    ]
)
FILES = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("dv_id", pa.string()),
        pa.field("partition_values", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("modification_time", pa.int64()),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
        pa.field("clustering_provider", pa.string()),
    ]
)
TOMBSTONES = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("dv_id", pa.string()),
        pa.field("deletion_timestamp", pa.int64()),
        pa.field("extended_file_metadata", pa.bool_()),
        pa.field("partition_values", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
    ]
)
NO_FILES, NO_TOMBSTONES = (  # `empty_table` would load pandas
    pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    for schema in (FILES, TOMBSTONES)
)
_MAPS = {"partition_values", "tags"}


def files_table(adds: Sequence[AddFile]) -> pa.Table:
    """Convert adds to rows."""
    return _table(adds, FILES) if adds else NO_FILES


def tombstones_table(removes: Sequence[RemoveFile]) -> pa.Table:
    """Convert removes to rows."""
    return _table(removes, TOMBSTONES) if removes else NO_TOMBSTONES


def adds_of(table: pa.Table) -> list[AddFile]:
    """Convert rows to adds. `data_change` is false: they are state, not change."""
    rows = _rows(table, FILES)
    return [
        AddFile(data_change=False, **{**row, "partition_values": row["partition_values"] or {}})
        for row in rows
    ]


def removes_of(table: pa.Table) -> list[RemoveFile]:
    """Convert rows to removes, `data_change` false."""
    return [RemoveFile(data_change=False, **row) for row in _rows(table, TOMBSTONES)]


def _table(actions: Sequence[AddFile | RemoveFile], schema: pa.Schema) -> pa.Table:
    columns = [_array(_column(actions, field.name), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Build an array, quickly for columns of nulls."""
    if all(value is None for value in values):
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def _column(actions: Iterable[AddFile | RemoveFile], name: str) -> list[Any]:
    if name == "dv_id":
        return [action.key[1] for action in actions]
    values = [getattr(action, name) for action in actions]
    if name in _MAPS:
        return [None if value is None else list(value.items()) for value in values]
    if name == "deletion_vector":
        return [None if value is None else _descriptor_row(value) for value in values]
    if name == "stats":
        return [None if value == "null" else value for value in values]
    return values


def _descriptor_row(dv: DeletionVectorDescriptor) -> dict[str, Any]:
    return {name: getattr(dv, name) for name in DELETION_VECTOR.names}


def _rows(table: pa.Table, schema: pa.Schema) -> Iterable[dict[str, Any]]:
    names = [name for name in schema.names if name != "dv_id"]
    columns = [_values(table.column(name), name) for name in names]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if name in _MAPS:
        return [None if value is None else dict(value) for value in column.to_pylist()]
    if name == "deletion_vector":
        return [descriptor_of(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def descriptor_of(row: Mapping[str, Any] | None) -> DeletionVectorDescriptor | None:
    """Build the descriptor of a row's `deletion_vector`."""
    return None if row is None else DeletionVectorDescriptor(**row)


@cache
def camel(name: str) -> str:
    """Convert a column's name to the protocol's spelling of the field."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
