"""A writer of tables as other engines write them, by hand and without this engine's code.

The engine reads here what code without any of its codecs wrote, so that a fault in a codec cannot
cancel itself out.
"""

import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MILLIS = 1_700_000_000_000

_PARTITIONS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_FILE = {
    "path": pa.string(),
    "partitionValues": _PARTITIONS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
    "deletionVector": _VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
_GONE = {
    "path": pa.string(),
    "deletionTimestamp": pa.int64(),
    "dataChange": pa.bool_(),
    "partitionValues": _PARTITIONS,
    "deletionVector": _VECTOR,
}
CHECKPOINT_TYPES: Mapping[str, pa.DataType] = {
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": pa.list_(pa.string()),
            "writerFeatures": pa.list_(pa.string()),
        }
    ),
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": _PARTITIONS}),
            "schemaString": pa.string(),
            "partitionColumns": pa.list_(pa.string()),
            "configuration": _PARTITIONS,
            "createdTime": pa.int64(),
        }
    ),
    "add": pa.struct(_FILE),
    "remove": pa.struct(_GONE),
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}),
    "domainMetadata": pa.struct(
        {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}
    ),
    "checkpointMetadata": pa.struct({"version": pa.int64()}),
    "sidecar": pa.struct(
        {"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()}
    ),
}


def column(name: str, kind: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """Return a field of a Delta schema; `metadata` names spell a dot as __."""
    named = {key.replace("__", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": named}


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def encode_z85(data: bytes) -> str:
    """Return Z85 text; the last group is padded with zero bytes, as Spark pads it."""
    data += b"\0" * (-len(data) % 4)
    return "".join(
        _Z85[int.from_bytes(data[at : at + 4], "big") // 85**power % 85]
        for at in range(0, len(data), 4)
        for power in (4, 3, 2, 1, 0)
    )


def bitmap_of(positions: Sequence[int]) -> bytes:
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    return struct.pack("<I", 1681511377) + bitmap.serialize()


class HandWriter:
    """A directory with a table written by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, data: bytes | str) -> int:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = data.encode() if isinstance(data, str) else data
        target.write_bytes(raw)
        return len(raw)

    def commit(self, version: int, *actions: dict[str, Any] | str) -> None:
        """Write a version; a text becomes a line unchanged."""
        lines = [
            action if isinstance(action, str) else json.dumps(action, ensure_ascii=False)
            for action in actions
        ]
        self.put(f"_delta_log/{version:020}.json", "\n".join(lines) + "\n")

    def create(
        self,
        *actions: dict[str, Any] | str,
        schema: Sequence[dict[str, Any]],
        protocol: tuple[Any, ...] = (1, 2),
        partition_columns: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        commit_info: dict[str, Any] | None = None,
    ) -> None:
        """Write version 0: the table's definition, then the actions."""
        info = {"timestamp": _MILLIS, "operation": "CREATE TABLE", "operationParameters": {}}
        self.commit(
            0,
            {"commitInfo": info | (commit_info or {})},
            {"protocol": protocol_of(*protocol)},
            {"metaData": metadata_of(schema, partition_columns, properties)},
            *actions,
        )

    def file(
        self,
        name: str,
        rows: pa.Table | Mapping[str, Any],
        *,
        partition: Mapping[str, str | None] | None = None,
        stats: Any = ...,
        logged: str | None = None,
        parquet: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Write a data file; return its `add`, with the count of its rows as statistics."""
        table = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, **(parquet or {}))
        said = json.dumps({"numRecords": table.num_rows}) if stats is ... else stats
        add = {
            "path": quote(name, safe="/=") if logged is None else logged,
            "partitionValues": dict(partition or {}),
            "size": target.stat().st_size,
            "modificationTime": _MILLIS,
            "dataChange": True,
            **({} if said is None else {"stats": said}),
        }
        return {"add": add | fields}

    def vectors(self, *positions: Sequence[int], prefix: str = "") -> list[dict[str, Any]]:
        """Write one file of deletion vectors; return a descriptor for each of them."""
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"{prefix}{positions}")
        data, descriptors = b"\x01", []
        for rows in positions:
            raw = bitmap_of(rows)
            descriptors.append(
                {
                    "storageType": "u",
                    "pathOrInlineDv": prefix + encode_z85(name.bytes),
                    "offset": len(data),
                    "sizeInBytes": len(raw),
                    "cardinality": len(set(rows)),
                }
            )
            data += struct.pack(">I", len(raw)) + raw + struct.pack(">I", zlib.crc32(raw))
        self.put(f"{prefix}/deletion_vector_{name}.bin".lstrip("/"), data)
        return descriptors

    def checkpoint(self, name: str, actions: Sequence[dict[str, Any]], **types: pa.DataType) -> int:
        """Write Parquet below the log with the columns that the actions have; return its size."""
        kinds = {**CHECKPOINT_TYPES, **types}
        present = [kind for kind in kinds if any(kind in action for action in actions)]
        schema = pa.schema([(kind, kinds[kind]) for kind in present])
        rows = [_convert_to_pairs(action) for action in actions]
        target = self.root / "_delta_log" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), target)
        return target.stat().st_size


def protocol_of(
    reader: int, writer: int, readers: Sequence[str] | None = None, writers: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a protocol; its reader features are also writer features."""
    versions: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if readers is not None:
        versions["writerFeatures"] = [*readers, *writers]
    if readers is not None and reader == 3:
        versions["readerFeatures"] = list(readers)
    return versions


def metadata_of(
    schema: Sequence[dict[str, Any]],
    partition_columns: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct_of(*schema)),
        "partitionColumns": list(partition_columns),
        "configuration": dict(properties or {}),
        "createdTime": _MILLIS,
    }


def remove_of(added: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the removal of an added file, with its deletion vector."""
    add = added["add"]
    vector = {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}
    gone = {"path": add["path"], "deletionTimestamp": _MILLIS, "dataChange": True}
    return {"remove": {**gone, **vector, **fields}}


def replace_vector(added: dict[str, Any], vector: dict[str, Any]) -> dict[str, Any]:
    """Return the same file with another deletion vector."""
    return {"add": {**added["add"], "deletionVector": vector}}


def _convert_to_pairs(value: Any, name: str = "") -> Any:
    """Return the value with a map's entries as pairs, as Arrow expects."""
    if not isinstance(value, dict):
        return value
    if name in ("partitionValues", "configuration", "options"):
        return list(value.items())
    return {key: _convert_to_pairs(part, key) for key, part in value.items()}
