"""Check the definition of a table against an existing table at its location.

A name given to such a table keeps its rows: a matching definition is registered, another is refused
with delta-spark's codes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import RequestError
from engine.schema.column_mapping import ID_KEY, MAX_ID_KEY, MODE_KEY, PHYSICAL_NAME_KEY
from engine.schema.types import StructType, type_to_json
from engine.schema.widening import TYPE_CHANGES
from engine.snapshot.new_table import is_same_layout
from engine.snapshot.snapshot import Snapshot

IDENTITY_MARK = "delta.identity.highWaterMark"
ROW_HISTORY = (
    "delta.rowTracking.materialized",
    "delta.inCommitTimestampEnablement",
    "delta.requireCheckpointProtection",
)
"""Prefixes of the properties that describe a table's own rows and log."""
_PROTOCOL = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.feature.")
_MAPPING = (MODE_KEY, MAX_ID_KEY)
_INTERNAL_METADATA = {ID_KEY, PHYSICAL_NAME_KEY, TYPE_CHANGES, IDENTITY_MARK}


class LocationSchemaError(RequestError, code="DELTA_CREATE_TABLE_SCHEME_MISMATCH"):
    """The columns of a definition are not those of the table at its location."""


class LocationPartitioningError(
    RequestError, code="DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"
):
    """The partition columns of a definition are not those of the table at its location."""


class LocationClusteringError(RequestError, code="DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"):
    """The clustering columns of a definition are not those of the table at its location."""


class LocationPropertiesError(RequestError, code="DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY"):
    """The properties of a definition are not those of the table at its location."""


class OccupiedLocationError(RequestError, code="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"):
    """A table is to be created where there is a table, or other files."""

    def __init__(self, name: str, location: str) -> None:
        """Take the location, and the table's name as the caller gave it."""
        super().__init__(
            f"{name} cannot be created: {location} is not empty.",
            "Choose an empty location, write to the table that is there, or replace it with"
            " CREATE OR REPLACE TABLE … AS SELECT.",
            field="location",
        )


class SchemaMissingError(RequestError, code="DELTA_SCHEMA_NOT_PROVIDED"):
    """REPLACE, or CREATE OR REPLACE, without columns and without a query."""

    def __init__(self) -> None:
        """Build the error; it has no facts of its own."""
        super().__init__(
            "REPLACE TABLE needs the columns of the new table, or a query.",
            "List the columns, or use CREATE TABLE to register the table that is there.",
            field="schema",
        )


def check_definition(
    location: str,
    snapshot: Snapshot,
    columns: StructType,
    partition_columns: Sequence[str],
    clustering_columns: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Refuse a definition that differs from the existing table.

    Without columns the layout is not compared, and without properties they are not.

    Raises:
        LocationSchemaError, LocationPartitioningError, LocationClusteringError: the columns or the
            layout differ. The order of the columns does not count.
        LocationPropertiesError: the properties differ.
    """
    if len(columns):
        differences = _list_differences(columns, snapshot.schema)
        if differences:
            what = f"The columns do not match those of the table at {location}: {differences[0]}."
            raise LocationSchemaError(what, _remedy("the same columns"), field="schema")
        _check_layout(
            LocationPartitioningError,
            "partition",
            partition_columns,
            snapshot.partition_columns,
            snapshot.schema,
        )
        _check_layout(
            LocationClusteringError,
            "clustering",
            clustering_columns,
            snapshot.clustering_columns,
            snapshot.schema,
        )
    own, existing = _own_properties(properties), _own_properties(snapshot.metadata.configuration)
    if properties and own != existing:
        what = f"The properties do not match those of the table at {location}."
        raise LocationPropertiesError(what, _remedy("no properties"), field="properties")


def _check_layout(
    error: type[RequestError],
    kind: str,
    specified: Sequence[str],
    existing: Sequence[str],
    schema: StructType,
) -> None:
    if not is_same_layout(schema, specified, existing):
        what = (
            f"The {kind} columns ({', '.join(specified) or 'none'}) do not match those of the table"
            f" at that location ({', '.join(existing) or 'none'})."
        )
        raise error(what, _remedy(f"the same {kind} columns"), field=f"{kind}_columns")


def _remedy(same: str) -> str:
    return (
        f"Give {same}, or none at all to register the table as it is; to replace its rows use"
        " CREATE OR REPLACE TABLE … AS SELECT."
    )


def _list_differences(specified: StructType, existing: StructType) -> list[str]:
    left, right = _comparable_fields(specified), _comparable_fields(existing)
    return [
        *(f"{name} is missing" for name in right if name not in left),
        *(f"{name} is not in the table" for name in left if name not in right),
        *(f"{name} differs" for name in left if name in right and left[name] != right[name]),
    ]


def _comparable_fields(schema: StructType) -> dict[str, Any]:
    return {field["name"]: field for field in _comparable(type_to_json(schema))["fields"]}


def _comparable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a type's JSON reduced to facts of a definition; fields of structs in any order."""
    if isinstance(value, list):
        parts = [_comparable(part) for part in value]
        named = all(isinstance(part, dict) and "name" in part for part in parts)
        return sorted(parts, key=lambda part: str(part["name"])) if named else parts
    if isinstance(value, dict):
        return {
            key: _user_metadata(inner) if key == "metadata" else _comparable(inner)
            for key, inner in value.items()
        }
    return value


def _user_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _INTERNAL_METADATA}


def _own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    left_out = (*ROW_HISTORY, *_PROTOCOL, *_MAPPING)
    return {key: value for key, value in properties.items() if not key.startswith(left_out)}
