"""Handmade tables whose logs make false claims about their files."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.deletion_vectors.bitmap import encode_bitmap, encode_z85
from engine.operations.run import run
from engine.table import DeltaTable

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
FEATURES = ["deletionVectors", "rowTracking", "domainMetadata", "appendOnly", "invariants"]
FEATURED = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": FEATURES,
}
VECTORS = {"delta.enableDeletionVectors": "true"}
FIELDS = [("id", "long"), ("v", "string")]
COUNTS = [None, 0, 1, 3, 9, 11, 1000, -1, 2.5, "3", True, [10], 2**63, 10**30]
"""What a log may claim as the number of rows of a file of ten."""
NO_STATISTICS = [
    "",
    "null",
    "[1]",
    "7",
    '"x"',
    '{"numRecords":10',
    '{"numRecords":10} x',
    '{"numRecords":NaN}',
    '{"numRecords":1e400}',
    '{"numRecords":10,"minValues":{"id":1e999999999999999999999}}',
    '{"numRecords":' + "9" * 5000 + "}",
    '{"numRecords":"3"}',
    '{"numRecords":10,"minValues":[1],"maxValues":7,"nullCount":"x","tightBounds":"no"}',
    '{"a":' * 5000 + "1" + "}" * 5000,
    "[" * 100_000,
]
"""Texts that are no statistics, or none of a kind that says anything of a row."""


def field(name: str, kind: str, **metadata: object) -> dict:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def metadata(fields=FIELDS, configuration=None, partition_columns=()) -> dict:
    columns = [column if isinstance(column, dict) else field(*column) for column in fields]
    return {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": list(partition_columns),
        "configuration": configuration or {},
        "createdTime": 1,
    }


def rows_of(ids, value="x") -> pa.Table:
    return pa.table({"id": pa.array(list(ids), pa.int64()), "v": [value] * len(ids)})


def inline_vector(rows, **fields: object) -> dict:
    payload = encode_bitmap(rows)
    return {
        "storageType": "i",
        "pathOrInlineDv": encode_z85(payload),
        "sizeInBytes": len(payload),
        "cardinality": len(rows),
        **fields,
    }


def add_file(root: Path, name: str, rows: pa.Table, stats=None, **fields: object) -> dict:
    """Write a file and return its `add`; statistics are JSON text or a value to encode."""
    pq.write_table(rows, root / name)
    text = stats if stats is None or isinstance(stats, str) else json.dumps(stats)
    return {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": (root / name).stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            **({} if text is None else {"stats": text}),
            **fields,
        }
    }


def commit(root: Path, version: int, *actions: dict, operation="WRITE", **info: object) -> None:
    told = {"commitInfo": {"timestamp": 1, "operation": operation, **info}}
    (root / "_delta_log").mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(action) + "\n" for action in (told, *actions))
    (root / "_delta_log" / f"{version:020}.json").write_text(lines)


def make(root: Path, *adds: dict, configuration=None, fields=FIELDS) -> DeltaTable:
    """Write version 0 with these files; a configuration implies a protocol with table features."""
    protocol = PLAIN if configuration is None else FEATURED
    commit(root, 0, {"protocol": protocol}, {"metaData": metadata(fields, configuration)}, *adds)
    return DeltaTable.open(str(root))


def read(root: Path, condition: str | None = None) -> list[dict]:
    return DeltaTable.open(str(root)).snapshot().to_arrow(condition=condition).to_pylist()


def ids(root: Path) -> list[int]:
    return sorted(row["id"] for row in read(root))


def execute(root: Path, statement: str, **options):
    return run(statement, DeltaTable.open(str(root)), **options)
