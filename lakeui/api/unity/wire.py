"""The formats of Unity Catalog's REST API: rows in answers, and the contents of bodies.

Messages that the engine's client has too are in `engine.catalog.unity_messages`.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from engine.actions.table import Metadata
from engine.catalog.catalog import RatifiedCommit
from engine.catalog.unity_messages import (
    DELTA,
    MANAGED,
    PreviewCommitInfo,
    V1Commit,
    list_unity_columns,
    schema_to_v1,
)
from engine.log.management import UNITY_TABLE_ID
from engine.schema.types import parse_schema
from engine.storage.uri import local_path
from lakeui.api.unity.errors import INVALID, UnityError
from lakeui.managed.models import ManagedCatalog, ManagedSchema, ManagedTable, ReservedTable

REQUIRED_PROTOCOL = {
    "min-reader-version": 3,
    "min-writer-version": 7,
    "reader-features": ["catalogManaged", "vacuumProtocolCheck"],
    "writer-features": ["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"],
}
SUGGESTED_PROTOCOL = {
    "reader-features": ["deletionVectors", "v2Checkpoint"],
    "writer-features": ["deletionVectors", "domainMetadata", "rowTracking", "v2Checkpoint"],
}
_MAX_NUMBER = 2**63


def read_body(data: Any) -> Mapping[str, Any]:
    """Return a request's body, which must be an object."""
    if not isinstance(data, Mapping):
        raise UnityError(INVALID, "The body must be a JSON object.")
    return data


def read_text(body: Mapping[str, Any], field: str, default: str | None = None) -> str:
    """Return a text of a body; without a default it must be there."""
    value = body.get(field)
    value = default if value is None else value
    if not isinstance(value, str) or (default is None and not value):
        raise UnityError(INVALID, f"{field} must be a text.")
    return value


def read_number(body: Mapping[str, Any], field: str, *, optional: bool = False) -> int | None:
    """Return a whole number of a body, at most 63 bits and not negative."""
    value = body.get(field)
    if value is None and optional:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_NUMBER:
        raise UnityError(INVALID, f"{field} must be a whole number that is not negative.")
    return value


def read_commit(said: Any, kind: type[PreviewCommitInfo | V1Commit]) -> RatifiedCommit:
    """Return the commit of a request."""
    try:
        commit = msgspec.convert(said, kind).to_commit()
    except msgspec.ValidationError as error:
        raise UnityError(INVALID, f"The commit is invalid: {error}.") from error
    if (
        max(commit.version, commit.size_bytes, commit.modified_ms, commit.timestamp_ms)
        >= _MAX_NUMBER
    ):
        raise UnityError(INVALID, "The commit has a number of more than 63 bits.")
    return commit


def show_commit(commit: RatifiedCommit, kind: type[PreviewCommitInfo | V1Commit]) -> Any:
    """Return a commit."""
    return msgspec.to_builtins(kind.from_commit(commit))


def show_location(place: str) -> str:
    """Return a location as a URL."""
    path = local_path(place)
    return place if path is None else Path(path).as_uri()


def show_catalog(row: ManagedCatalog) -> dict[str, Any]:
    """Return a catalog."""
    return {**_show_named(row), "id": str(row.pk), "storage_root": row.storage_root or None}


def show_schema(row: ManagedSchema) -> dict[str, Any]:
    """Return a schema."""
    names = {"catalog_name": row.catalog.name, "full_name": str(row), "schema_id": str(row.pk)}
    return {**_show_named(row), **names}


def show_reserved(row: ReservedTable) -> dict[str, Any]:
    """Return a staging table in the preview's shape."""
    return {
        "id": str(row.table_id),
        "name": row.name,
        "catalog_name": row.schema.catalog.name,
        "schema_name": row.schema.name,
        "staging_location": show_location(row.location),
    }


def show_table(row: ManagedTable) -> dict[str, Any]:
    """Return a table in the preview's shape."""
    catalog, schema, name = row.full_name.split(".")
    metadata = _metadata(row)
    columns = None if metadata is None else msgspec.to_builtins(list_unity_columns(metadata))
    return {
        "name": name,
        "catalog_name": catalog,
        "schema_name": schema,
        "table_type": MANAGED,
        "data_source_format": DELTA,
        "columns": row.declared.get("columns", []) if columns is None else columns,
        "storage_location": show_location(row.location),
        "comment": metadata.description if metadata else row.declared.get("comment"),
        "properties": _properties(row),
        "owner": _name_of(row.created_by),
        "created_at": _ms(row.created_at),
        "created_by": _name_of(row.created_by),
        "updated_at": _ms(row.updated_at),
        "table_id": str(row.table_id),
    }


def show_metadata(row: ManagedTable) -> dict[str, Any]:
    """Return a table's metadata in the shape of v1."""
    metadata = msgspec.convert(row.definition["metaData"], Metadata)
    return {
        "etag": f"{row.latest_version}",
        "table-type": MANAGED,
        "table-uuid": str(row.table_id),
        "location": show_location(row.location),
        "created-time": _ms(row.created_at),
        "updated-time": _ms(row.updated_at),
        "columns": schema_to_v1(parse_schema(metadata.schema_string)),
        "partition-columns": metadata.partition_columns,
        "properties": _properties(row),
        "last-commit-version": row.latest_version,
        "last-commit-timestamp-ms": row.timestamp_ms,
    }


def first_properties(table_id: str) -> dict[str, str]:
    """Return the properties of version 0 of a managed table."""
    return {"delta.enableInCommitTimestamps": "true", UNITY_TABLE_ID: table_id}


def _properties(row: ManagedTable) -> dict[str, str]:
    """Return a table's properties with its protocol, as clients look for it."""
    protocol = row.definition.get("protocol")
    if protocol is None:
        return {**row.declared.get("properties", {}), UNITY_TABLE_ID: str(row.table_id)}
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    return {
        **row.definition["metaData"].get("configuration", {}),
        "delta.minReaderVersion": str(protocol["minReaderVersion"]),
        "delta.minWriterVersion": str(protocol["minWriterVersion"]),
        **{f"delta.feature.{name}": "supported" for name in sorted(features)},
    }


def _metadata(row: ManagedTable) -> Metadata | None:
    """Return the table's metadata; None until its version 0 is read."""
    said = row.definition.get("metaData")
    return None if said is None else msgspec.convert(said, Metadata)


def _show_named(row: ManagedCatalog | ManagedSchema) -> dict[str, Any]:
    return {
        "name": row.name,
        "comment": row.comment or None,
        "properties": row.properties,
        "owner": _name_of(row.created_by),
        "created_at": _ms(row.created_at),
        "created_by": _name_of(row.created_by),
    }


def _name_of(person: Any) -> str | None:
    return None if person is None else str(person.get_username())


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
