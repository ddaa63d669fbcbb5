"""Commits that engines may write, valid or not, with arbitrary effects on files."""

import json
import random
from pathlib import Path
from typing import Any

from django.utils import timezone

from tests.lakeui.catalog.log_writer import FULL_INFO, SCHEMA, append_commit

NOW_MS = int(timezone.now().timestamp() * 1000)
HOUR_MS = 3_600_000
KEEPS = {"delta.deletedFileRetentionDuration": "interval 10 hours"}
VACUUM_END = {**FULL_INFO, "operation": "VACUUM END"}


def vector(number: int, cardinality: int) -> dict[str, Any]:
    return {
        "storageType": "u",
        "pathOrInlineDv": f"{number:020}",
        "offset": 1,
        "sizeInBytes": 40,
        "cardinality": cardinality,
    }


def add(path: str, size: int = 4000, rows: int | None = 10, **more: Any) -> dict[str, Any]:
    fields = {"path": path, "partitionValues": {"p": path[:1]}, "size": size, "dataChange": True}
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {**fields, "modificationTime": NOW_MS, **stats, **more}}


def remove(path: str, hours_ago: int | None = 1, **more: Any) -> dict[str, Any]:
    when = {} if hours_ago is None else {"deletionTimestamp": NOW_MS - hours_ago * HOUR_MS}
    return {"remove": {"path": path, "dataChange": True, **when, **more}}


METADATA = {"metaData": {"id": "by-hand", "schemaString": SCHEMA, "configuration": KEEPS}}
DOMAIN = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
TXN = {"txn": {"appId": "a", "version": 3}}
CDC = {"cdc": {"path": "_change_data/a", "partitionValues": {}, "size": 9, "dataChange": False}}
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}


def write_any_commit(dice: random.Random, place: Path, version: int) -> None:
    """Write a commit that an engine may write, valid by the protocol or not."""
    paths = [f"{letter}{number}" for letter in "ab" for number in range(6)]
    actions: list[dict[str, Any]] = []
    for _ in range(dice.choice([1, 1, 2, 4, 8])):
        path = dice.choice(paths)
        marked = dice.choice([None, None, None, 1, 2])
        vectors = {} if marked is None else {"deletionVector": vector(marked, marked)}
        if dice.random() < 0.6:
            size, rows = dice.choice([10, 4000, 9000]), dice.choice([10, 10, 10, 20, None])
            times = {"modificationTime": NOW_MS - dice.choice([0, 5])}
            actions.append(add(path, size, rows, **{**times, **vectors}))
        else:
            sizes = dice.choice([{}, {"size": 10}, {"size": 4000}])
            actions.append(remove(path, dice.choice([None, 1, 3, 9, 30]), **{**sizes, **vectors}))
    odd = dice.random()
    if odd < 0.05:
        actions.append(dice.choice([METADATA, PROTOCOL, DOMAIN]))
    info = VACUUM_END if 0.05 <= odd < 0.1 else FULL_INFO
    append_commit(place, version, actions, info=info)
