"""Requirements on a table whose files are readable as an Iceberg table.

Protocol: Iceberg Compatibility V2. The feature concerns only the Delta table; `engine.iceberg`
writes the Iceberg metadata.
"""

from collections.abc import Iterator, Mapping, Sequence

from engine.actions.files import AddFile
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import PHYSICAL_NAME_KEY, iter_nested_paths, read_nested_ids
from engine.schema.evolution import parse_noted_type
from engine.schema.types import (
    PrimitiveType,
    StructField,
    StructType,
    iter_types,
)

COMPAT_V1_KEY = "delta.enableIcebergCompatV1"
COMPAT_TAG = "ICEBERG_COMPAT_VERSION"
COMPAT_VERSION = 2
TYPE_CHANGES_KEY = "delta.typeChanges"
ICEBERG_DIRECTORY = "metadata"
"""The directory of the Iceberg metadata below the table."""
_FORMAT = "iceberg"
_TYPES = frozenset(
    {
        *("byte", "short", "integer", "long", "float", "double", "string", "binary", "boolean"),
        *("timestamp", "timestamp_ntz", "date"),
    }
)
_PROMOTIONS = frozenset(
    {
        *(("byte", "short"), ("byte", "integer"), ("short", "integer")),
        *(("byte", "long"), ("short", "long"), ("integer", "long"), ("float", "double")),
    }
)


def is_iceberg(properties: TableProperties) -> bool:
    """Return whether a table is readable as Iceberg too."""
    named = {name.lower() for name in properties.universal_formats}
    return properties.iceberg_compat_v2 and _FORMAT in named


def is_tagged(add: AddFile) -> bool:
    """Return whether a file was written under the rules."""
    return (add.tags or {}).get(COMPAT_TAG) == str(COMPAT_VERSION)


def faults_of(schema: StructType, configuration: Mapping[str, str]) -> Iterator[str]:
    """Yield the obstacles to the feature in a schema and configuration."""
    properties = TableProperties.parse(configuration)
    if properties.column_mapping_mode == "none":
        yield "column mapping is off (delta.columnMapping.mode)"
    if properties.enable_deletion_vectors:
        yield "deletion vectors are enabled (delta.enableDeletionVectors)"
    if str(configuration.get(COMPAT_V1_KEY)).lower() == "true":
        yield f"{COMPAT_V1_KEY} is set"
    yield from _type_faults(schema)


def _type_faults(schema: StructType) -> Iterator[str]:
    for type_ in iter_types(schema):
        if isinstance(type_, PrimitiveType) and type_.name not in _TYPES:
            yield f"Iceberg has no type {type_.name}"
        if isinstance(type_, StructType):
            for column in type_:
                yield from _column_faults(column)


def _column_faults(column: StructField) -> Iterator[str]:
    changes = column.metadata.get(TYPE_CHANGES_KEY)
    for change in changes if isinstance(changes, Sequence) else ():
        before, after = (str(parse_noted_type(change.get(key))) for key in ("fromType", "toType"))
        if not _is_promotion(before, after):
            yield (
                f"{column.name} was widened from {before} to {after}, which Iceberg does not "
                "support"
            )


def partitions_fault(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Explain why a table cannot be partitioned by other columns (physical names); None if it can."""
    if before and list(before) != list(after):
        return f"it is partitioned by {', '.join(before)}, and its partition columns cannot change"
    return None


def has_nested_ids(schema: StructType) -> bool:
    """Return whether every element, key and value has an id."""
    return all(
        path in read_nested_ids(column)
        for type_ in iter_types(schema)
        if isinstance(type_, StructType)
        for column in type_
        for path in iter_nested_paths(
            column.type, str(column.metadata.get(PHYSICAL_NAME_KEY, column.name))
        )
    )


def _is_promotion(before: str, after: str) -> bool:
    if (before, after) in _PROMOTIONS:
        return True
    old, new = _decimal(before), _decimal(after)
    return old is not None and new is not None and old[1] == new[1] and old[0] <= new[0]


def _decimal(text: str) -> tuple[int, int] | None:
    if not text.startswith("decimal(") or not text.endswith(")"):
        return None
    precision, _, scale = text[8:-1].partition(",")
    digits = precision.strip().isdecimal() and scale.strip().isdecimal()
    return (int(precision), int(scale)) if digits else None
