"""Commits whose texts the mirror keeps, for replays."""

import json

from lakeui.catalog.models import Commit

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "part", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def add(path, part="a", data_change=True):
    return {
        "add": {
            "path": path,
            "partitionValues": {"part": part},
            "size": 1,
            "modificationTime": 0,
            "dataChange": data_change,
        }
    }


def remove(path, part="a"):
    return {
        "remove": {
            "path": path,
            "dataChange": True,
            "partitionValues": {"part": part},
            "deletionTimestamp": 0,
        }
    }


def set_commit_text(table, version, *actions, **info):
    """Set the text of a version's commit in the mirror."""
    lines = [json.dumps({"commitInfo": {"timestamp": 0, **info}})]
    raw = "\n".join([*lines, *(json.dumps(action) for action in actions)])
    Commit.objects.filter(table=table, version=version).update(raw=raw, raw_bytes=len(raw.encode()))


def replayable(table, part="a", **later):
    """Return a history: version 1 blindly appends to partition a; version 2, which read 0, deletes from one."""
    table.schema, table.partition_columns = SCHEMA, ["part"]
    table.save()
    set_commit_text(table, 0, operation="CREATE TABLE")
    set_commit_text(table, 1, add("w"), operation="WRITE", readVersion=0, isBlindAppend=True)
    delete = {
        "operation": "DELETE",
        "readVersion": 0,
        "isBlindAppend": False,
        "operationParameters": {"predicate": json.dumps([f"part = '{part}'"])},
    }
    set_commit_text(table, 2, remove("f", part), add("g", part), **(delete | later))
    return table
