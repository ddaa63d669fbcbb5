"""Managed tables of the tests, and commits as a client stages them."""

import json
import uuid

from engine.catalog.catalog import RatifiedCommit
from lakeui.catalog.managed_tables import (
    create_catalog,
    create_schema,
    open_location,
    register_managed,
    reserve_table,
)
from lakeui.managed.models import ManagedCatalog, ManagedSchema
from lakeui.managed.ratification import CommitOrigin, check_proposal, ratify

FEATURES = ["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"]
PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["catalogManaged", "vacuumProtocolCheck"],
    "writerFeatures": FEATURES,
}
SCHEMA = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
START_MS = 1_760_000_000_000


def first_commit(table_id, protocol=PROTOCOL, **configuration):
    """Return version 0 as a client writes it into the log."""
    properties = {
        "delta.enableInCommitTimestamps": "true",
        "io.unitycatalog.tableId": str(table_id),
        **configuration,
    }
    metadata = {
        "id": str(uuid.uuid4()),
        "schemaString": json.dumps(SCHEMA),
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": START_MS,
    }
    return lines(0, {"protocol": protocol}, {"metaData": metadata}, operation="CREATE TABLE")


def set_property(table_id, name, value, version=1):
    """Return a commit that sets a table property."""
    metadata = first_commit(table_id, **{name: value}).splitlines()[2]
    return lines(version) + metadata + b"\n"


def lines(version, *actions, operation="WRITE", **info):
    """Return the bytes of a commit."""
    commit_info = {
        "timestamp": START_MS + version,
        "inCommitTimestamp": START_MS + version,
        "operation": operation,
        "operationParameters": {},
        "isBlindAppend": False,
        "txnId": str(uuid.uuid4()),
        **info,
    }
    all_lines = [json.dumps(line) for line in ({"commitInfo": commit_info}, *actions)]
    return ("\n".join(all_lines) + "\n").encode()


def add(path, **fields):
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": 10,
            "modificationTime": START_MS,
            "dataChange": True,
            **fields,
        }
    }


def remove(path):
    return {
        "remove": {
            "path": path,
            "deletionTimestamp": START_MS,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": 10,
        }
    }


def stage(store, version, data=None, name=None, **facts):
    """Write a staged commit; return its facts as its client proposes them."""
    data = lines(version, add(f"{uuid.uuid4()}.parquet")) if data is None else data
    name = name or f"{version:020}.{uuid.uuid4()}.json"
    store.put(f"_delta_log/_staged_commits/{name}", data)
    values = {"size_bytes": len(data), "modified_ms": START_MS, "timestamp_ms": START_MS + version}
    return RatifiedCommit(version, name, **(values | facts))


def make_managed(by, name="orders"):
    """Create a managed table `lake.sales.orders` with version 0 in its log."""
    catalog = ManagedCatalog.objects.filter(name="lake").first() or create_catalog("lake", by)
    schema = ManagedSchema.objects.filter(catalog=catalog).first()
    reserved = reserve_table(schema or create_schema(catalog, "sales", by), name, by)
    open_location(reserved).put_if_absent(
        "_delta_log/00000000000000000000.json", first_commit(reserved.table_id)
    )
    return register_managed(reserved, {}, is_written=True)


def propose(managed, commit, user=None, client="test/1"):
    """Propose a commit as the web process does; return False if it was a version already."""
    origin = CommitOrigin(user.pk if user else None, "", client)
    proposal = check_proposal(managed, commit, origin, open_location(managed))
    if proposal is not None:
        ratify(managed, proposal, origin)
    return proposal is not None
