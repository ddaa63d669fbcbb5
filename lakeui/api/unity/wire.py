"""The shapes of Unity Catalog's REST API: what a row is on the wire, and what a body says."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.catalog.catalog import RatifiedCommit
from engine.storage.uri import local_path
from lakeui.api.unity.errors import INVALID, UnityError
from lakeui.managed.models import ManagedCatalog, ManagedSchema, ManagedTable, ReservedTable

TABLE_ID = "io.unitycatalog.tableId"
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
_COMMIT_FIELDS = {  # of the preview; v1 has hyphens
    "version": "version",
    "timestamp": "timestamp_ms",
    "file_name": "file_name",
    "file_size": "size_bytes",
    "file_modification_timestamp": "modified_ms",
}
_KEBAB = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}
_TYPE_NAMES = {"integer": "INT", "timestamp_ntz": "TIMESTAMP_NTZ"}
_TYPE_TEXTS = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


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
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise UnityError(INVALID, f"{field} must be a whole number that is not negative.")
    return value


def read_commit(said: Any, *, kebab: bool = False) -> RatifiedCommit:
    """Return the commit of a request, in the preview's spelling or with hyphens."""
    body = read_body(said)
    values: dict[str, Any] = {}
    for field, attribute in _COMMIT_FIELDS.items():
        name = field.replace("_", "-") if kebab else field
        read = read_text if field == "file_name" else read_number
        values[attribute] = read(body, name)
    return RatifiedCommit(**values)


def show_commit(commit: RatifiedCommit, *, kebab: bool = False) -> dict[str, Any]:
    """Return a commit, in the preview's spelling or with hyphens."""
    values = {field: getattr(commit, name) for field, name in _COMMIT_FIELDS.items()}
    return {name.replace("_", "-"): value for name, value in values.items()} if kebab else values


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
    metadata = row.definition.get("metaData")
    declared = row.declared
    return {
        "name": name,
        "catalog_name": catalog,
        "schema_name": schema,
        "table_type": "MANAGED",
        "data_source_format": "DELTA",
        "columns": declared.get("columns", []) if metadata is None else list(_columns(metadata)),
        "storage_location": show_location(row.location),
        "comment": declared.get("comment") if metadata is None else metadata.get("description"),
        "properties": _properties(row),
        "owner": _name_of(row.created_by),
        "created_at": _ms(row.created_at),
        "created_by": _name_of(row.created_by),
        "updated_at": _ms(row.updated_at),
        "table_id": str(row.table_id),
    }


def show_metadata(row: ManagedTable) -> dict[str, Any]:
    """Return a table's metadata in the shape of v1."""
    metadata = row.definition.get("metaData", {})
    return {
        "etag": f"{row.latest_version}",
        "table-type": "MANAGED",
        "table-uuid": str(row.table_id),
        "location": show_location(row.location),
        "created-time": _ms(row.created_at),
        "updated-time": _ms(row.updated_at),
        "columns": _kebab_type(_schema(metadata)),
        "partition-columns": metadata.get("partitionColumns", []),
        "properties": _properties(row),
        "last-commit-version": row.latest_version,
        "last-commit-timestamp-ms": row.timestamp_ms,
    }


def first_properties(table_id: str) -> dict[str, str]:
    """Return the properties of version 0 of a managed table."""
    return {"delta.enableInCommitTimestamps": "true", TABLE_ID: table_id}


def _properties(row: ManagedTable) -> dict[str, str]:
    """Return a table's properties with its protocol, as clients look for it."""
    protocol = row.definition.get("protocol")
    if protocol is None:
        return {**row.declared.get("properties", {}), TABLE_ID: str(row.table_id)}
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    return {
        **row.definition["metaData"].get("configuration", {}),
        "delta.minReaderVersion": str(protocol["minReaderVersion"]),
        "delta.minWriterVersion": str(protocol["minWriterVersion"]),
        **{f"delta.feature.{name}": "supported" for name in sorted(features)},
    }


def _columns(metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield columns in the preview's shape."""
    partitions = [name.lower() for name in metadata.get("partitionColumns", ())]
    for position, field in enumerate(_schema(metadata)["fields"]):
        kind, name = field["type"], field["name"]
        column = {
            "name": name,
            "type_text": _type_text(kind),
            "type_json": json.dumps(field),
            "type_name": _type_name(kind),
            "position": position,
            "nullable": field.get("nullable", True),
        }
        if column["type_name"] == "DECIMAL":
            precision, scale = kind[len("decimal(") : -1].split(",")
            column |= {"type_precision": int(precision), "type_scale": int(scale)}
        if isinstance(comment := field.get("metadata", {}).get("comment"), str):
            column["comment"] = comment
        if name.lower() in partitions:
            column["partition_index"] = partitions.index(name.lower())
        yield column


def _schema(metadata: Mapping[str, Any]) -> dict[str, Any]:
    text = metadata.get("schemaString")
    return json.loads(text) if text else {"type": "struct", "fields": []}


def _type_name(kind: Any) -> str:
    name = kind["type"] if isinstance(kind, Mapping) else kind.partition("(")[0]
    return str(_TYPE_NAMES.get(name, name.upper()))


def _type_text(kind: Any) -> str:
    """Return a type as SQL."""
    if not isinstance(kind, Mapping):
        return str(_TYPE_TEXTS.get(kind, kind))
    if kind["type"] == "array":
        return f"array<{_type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_type_text(kind['keyType'])},{_type_text(kind['valueType'])}>"
    if kind["type"] == "struct":
        fields = (f"{field['name']}:{_type_text(field['type'])}" for field in kind["fields"])
        return f"struct<{','.join(fields)}>"
    return str(kind["type"])


def _kebab_type(kind: Any) -> Any:
    """Return a type with the names of v1; metadata of columns stay as they are."""
    if isinstance(kind, list):
        return [_kebab_type(inner) for inner in kind]
    if not isinstance(kind, Mapping):
        return kind
    return {
        _KEBAB.get(name, name): value if name == "metadata" else _kebab_type(value)
        for name, value in kind.items()
    }


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
