"""Tables made by hand, line by line, for tests of readers."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.log.paths import commit_path
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.storage.base import Store
from engine.storage.uri import open_store
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.transaction.staged_files import list_staged_paths

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
LEGACY = Protocol(min_reader_version=1, min_writer_version=2)
WITH_VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["deletionVectors"],
    writer_features=["deletionVectors"],
)


def metadata(schema: StructType = SCHEMA, **values: Any) -> Metadata:
    return Metadata(**{"id": "made", "schema_string": schema.to_json(), **values})


def add(path: str, partition: Mapping[str, str | None] | None = None, **values: Any) -> AddFile:
    defaults = {"size": 1, "modification_time": 1, "data_change": True}
    return AddFile(path=path, partition_values=dict(partition or {}), **{**defaults, **values})


def remove(path: str, **values: Any) -> RemoveFile:
    return RemoveFile(**{"path": path, "data_change": True, "deletion_timestamp": 1, **values})


def write_commit(store: Store, version: int, *actions: Action) -> None:
    write_lines(store, version, *(encode(action) for action in actions))


def write_lines(store: Store, version: int, *lines: str) -> None:
    store.put(commit_path(version), "".join(f"{line}\n" for line in lines).encode())


def write_first(
    store: Store, schema: StructType = SCHEMA, protocol: Protocol = LEGACY, **values: Any
) -> None:
    write_commit(
        store, 0, CommitInfo(operation="CREATE TABLE"), protocol, metadata(schema, **values)
    )


def write_rows(
    store: Store, path: str, rows: Mapping[str, Any] | pa.Table, **values: Any
) -> AddFile:
    """Write a data file and return its add; `path` is the name on disk and, unescaped, in the log."""
    table = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    store.put(path, data)
    stats = json.dumps({"numRecords": table.num_rows})
    partition = values.pop("partition_values", None)
    return add(path, partition, **{"size": len(data), "stats": stats, **values})


def stage(txn: OptimisticTransaction, *actions: Action) -> None:
    """Stage actions, and write an empty file for every named file that is missing.

    A commit checks that added files exist.
    """
    store = open_store(txn.table.uri)
    for path in list_staged_paths(store, actions):
        if store.stat(path) is None:
            store.put(path, b"")
    txn.stage(*actions)
