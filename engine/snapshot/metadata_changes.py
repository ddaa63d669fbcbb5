"""What one state of a table's metadata has that another has not, in words (pure)."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.actions.table import Metadata
from engine.schema.column_mapping import field_id
from engine.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    type_to_json,
)

_SHOWN_TYPE = 60


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """One change: `additive` if rows written before it read under it with the same meaning."""

    text: str
    additive: bool = False


def schema_changes(before: Metadata, after: Metadata) -> list[MetadataChange]:
    """How columns and partitioning changed; what the table notes at its columns is no change."""
    found = list(_struct_changes(_schema(before), _schema(after), ""))
    if before.partition_columns != after.partition_columns:
        shown = ", ".join(after.partition_columns) or "nothing"
        found.append(MetadataChange(f"it is partitioned by {shown} now"))
    return found


def property_changes(before: Metadata, after: Metadata) -> list[MetadataChange]:
    """Which table properties were set, changed or unset."""
    keys = sorted(before.configuration.keys() | after.configuration.keys())
    return [
        MetadataChange(f"the property {key} changed", additive=True)
        for key in keys
        if before.configuration.get(key) != after.configuration.get(key)
    ]


def _schema(metadata: Metadata) -> StructType:
    return parse_schema(metadata.schema_string)


def _struct_changes(before: StructType, after: StructType, prefix: str) -> Iterator[MetadataChange]:
    left = {_identity(each): each for each in before}
    right = {_identity(each): each for each in after}
    if not left.keys() & right.keys():  # column mapping came or went: names are all there is
        left = {each.name.lower(): each for each in before}
        right = {each.name.lower(): each for each in after}
    for key, each in left.items():
        if key in right:
            yield from _field_changes(each, right[key], prefix)
        else:
            yield MetadataChange(f"column {prefix}{each.name} was dropped")
    for key, each in right.items():
        if key not in left:
            yield MetadataChange(f"column {prefix}{each.name} was added", additive=each.nullable)


def _field_changes(
    before: StructField, after: StructField, prefix: str
) -> Iterator[MetadataChange]:
    name = f"{prefix}{before.name}"
    if before.name != after.name:
        yield MetadataChange(f"column {name} was renamed to {after.name}")
    if before.nullable != after.nullable:
        now = "may be null" if after.nullable else "may not be null"
        yield MetadataChange(f"column {name} {now} now", additive=True)
    if isinstance(before.type, StructType) and isinstance(after.type, StructType):
        yield from _struct_changes(before.type, after.type, f"{name}.")
    elif _bare(before.type) != _bare(after.type):
        shown = [str(type_to_json(each.type))[:_SHOWN_TYPE] for each in (before, after)]
        yield MetadataChange(f"column {name} changed from {shown[0]} to {shown[1]}")


def _identity(each: StructField) -> object:
    """What stays with a column when it is renamed."""
    number = field_id(each)
    return each.name.lower() if number is None else number


def _bare(data_type: DataType) -> DataType:
    """The type without nullability and metadata."""
    match data_type:
        case StructType(fields):
            return StructType(tuple(StructField(f.name, _bare(f.type)) for f in fields))
        case ArrayType(element, _):
            return ArrayType(_bare(element))
        case MapType(key, value, _):
            return MapType(_bare(key), _bare(value))
        case _:
            return data_type
