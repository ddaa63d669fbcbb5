"""Logs written by hand as other engines write them, without data files."""

import json
from pathlib import Path
from typing import Any

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "country", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
FULL_INFO = {
    "timestamp": 1_700_000_000_000,
    "operation": "WRITE",
    "operationParameters": {"mode": "Append", "predicate": '["id = 1"]'},
    "readVersion": 0,
    "isolationLevel": "WriteSerializable",
    "isBlindAppend": True,
    "engineInfo": "by hand",
    "txnId": "a-transaction",
}


def new_table(place: Path, table_id: str = "by-hand", configuration: dict[str, str] | None = None):
    """Write version 0 of an empty table."""
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": configuration or {},
        "createdTime": 1_700_000_000_000,
    }
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    append_commit(place, 0, actions, info={**FULL_INFO, "operation": "CREATE TABLE"})


def append_commit(
    place: Path, version: int, actions: list[dict[str, Any]], info: dict[str, Any] | None = None
):
    """Write a commit with its writer's commit information."""
    lines = [{"commitInfo": FULL_INFO if info is None else info}, *actions]
    log = place / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (log / f"{version:020}.json").write_text(text, "utf-8")


def add(path: str, *, rows: int | None = 1, size: int = 1000) -> dict[str, Any]:
    """Return an add action."""
    stats = None if rows is None else json.dumps({"numRecords": rows})
    fields = {
        "path": path,
        "partitionValues": {},
        "size": size,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": stats,
    }
    return {"add": {key: value for key, value in fields.items() if value is not None}}


def remove(path: str, **more: object) -> dict[str, Any]:
    """Return a remove action."""
    said = {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
    return {"remove": said | more}
