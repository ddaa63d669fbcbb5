"""Logs of many files or many commits, without their data."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CHECKPOINT_VERSION = 10
_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "day", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_METADATA = {
    "id": "8f2b3c1e-0000-4000-8000-000000000000",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": _SCHEMA,
    "partitionColumns": ["day"],
    "configuration": {},
    "createdTime": 1_700_000_000_000,
}
DAYS = 1000


def table_with_checkpoint(place: Path, count: int, size_bytes: int | None = None) -> Path:
    """Create a table of `count` live files in one checkpoint and one more in a commit after it.

    Each file states `size_bytes`, or a number of its own.
    """
    log = place / "_delta_log"
    log.mkdir(parents=True)
    name = f"{CHECKPOINT_VERSION:020}.checkpoint.parquet"
    pq.write_table(_checkpoint(count, size_bytes), log / name, compression="snappy")
    (log / "_last_checkpoint").write_text(
        json.dumps({"version": CHECKPOINT_VERSION, "size": count + 2})
    )
    for version in range(CHECKPOINT_VERSION + 1):
        write_commit(
            place, version, [] if version else [{"protocol": _PROTOCOL}, {"metaData": _METADATA}]
        )
    write_commit(place, CHECKPOINT_VERSION + 1, [{"add": build_add(count)}])
    return place


def enable_deletion_vectors(place: Path, version: int) -> None:
    """Let a table have deletion vectors from a version on."""
    features = ["deletionVectors"]
    write_commit(
        place,
        version,
        [
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": features,
                    "writerFeatures": [*features, "appendOnly", "invariants"],
                }
            },
            {
                "metaData": {
                    **_METADATA,
                    "configuration": {"delta.enableDeletionVectors": "true"},
                }
            },
        ],
    )


def table_with_commits(place: Path, count: int) -> Path:
    """Create a table of `count` commits, each adding a file."""
    (place / "_delta_log").mkdir(parents=True)
    write_commit(place, 0, [{"protocol": _PROTOCOL}, {"metaData": _METADATA}])
    for version in range(1, count):
        write_commit(place, version, [{"add": build_add(version)}])
    return place


def table_of_one_commit(place: Path, count: int) -> Path:
    """Create a table whose first commit adds all of its `count` files."""
    (place / "_delta_log").mkdir(parents=True)
    head = [{"protocol": _PROTOCOL}, {"metaData": _METADATA}]
    write_commit(place, 0, [*head, *({"add": build_add(number)} for number in range(count))])
    return place


def write_commit(place: Path, version: int, actions: list[dict[str, Any]]) -> None:
    """One commit file."""
    info = {
        "timestamp": 1_700_000_000_000 + version,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1"},
    }
    lines = [json.dumps(action) for action in [{"commitInfo": info}, *actions]]
    (place / "_delta_log" / f"{version:020}.json").write_text("\n".join(lines) + "\n", "utf-8")


def build_add(number: int) -> dict[str, Any]:
    """Return the add action of file `number`."""
    return {
        "path": _path(number),
        "partitionValues": {"day": f"d{number % DAYS}"},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": _stats(number),
    }


def build_remove(number: int) -> dict[str, Any]:
    """Return the remove action of file `number`, years ago."""
    return {"path": _path(number), "deletionTimestamp": 1_600_000_000_000, "dataChange": True}


def _path(number: int) -> str:
    return f"day=d{number % DAYS}/part-{number:08}-3f1c2b7a-aaaa-4bbb-8ccc-{number:012}-c000.snappy.parquet"


def _stats(number: int) -> str:
    low, high = number * 1000, number * 1000 + 999
    return f'{{"numRecords":1000,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}},"nullCount":{{"id":0}}}}'


def _checkpoint(count: int, size_bytes: int | None) -> pa.Table:
    numbers = range(count)
    days = pa.array([f"d{number % DAYS}" for number in numbers])
    offsets = pa.array(range(count + 1), pa.int32())
    partitions = pa.MapArray.from_arrays(offsets, pa.array(["day"] * count), days)
    add = pa.StructArray.from_arrays(
        [
            pa.array([_path(number) for number in numbers]),
            partitions,
            pa.array([size_bytes or 1_000_000 + number for number in numbers], pa.int64()),
            pa.array([1_700_000_000_000] * count, pa.int64()),
            pa.array([True] * count),
            pa.array([_stats(number) for number in numbers]),
        ],
        ["path", "partitionValues", "size", "modificationTime", "dataChange", "stats"],
    )
    files = pa.table({"add": add})
    head = pa.table(
        {
            "protocol": pa.array(
                [_PROTOCOL, None], pa.struct([(key, pa.int32()) for key in _PROTOCOL])
            ),
            "metaData": pa.array([None, _use_pair_lists(_METADATA)], _METADATA_TYPE),
        }
    )
    return pa.concat_tables([head, files], promote_options="default")


_TEXTS = pa.map_(pa.string(), pa.string())
_METADATA_TYPE = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXTS),
        ("createdTime", pa.int64()),
    ]
)


def _use_pair_lists(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "format": {"provider": "parquet", "options": []}, "configuration": []}
