"""A schema as rows to read: nested fields indented under their parent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.schema.types import StructType, type_to_json
from lakeui.catalog.models import Table

MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """`role` says what the table does with the column: partition, cluster, nothing."""

    name: str
    type: str
    nullable: bool
    depth: int
    role: str
    comment: str
    notes: tuple[str, ...]


def schema_rows(table: Table) -> list[SchemaRow]:
    """Of the schema as mirrored; empty where none was."""
    schema = table.schema if isinstance(table.schema, dict) else {}
    roles = dict.fromkeys(table.partition_columns, "partition")
    roles |= {_name(column): "cluster" for column in table.clustering_columns}
    return list(_rows(schema, roles, 0))


def type_text(value: object) -> str:
    """A Delta type as SQL writes it."""
    if not isinstance(value, dict):
        return str(value)
    match value.get("type"):
        case "array":
            return f"array<{type_text(value.get('elementType'))}>"
        case "map":
            return f"map<{type_text(value.get('keyType'))}, {type_text(value.get('valueType'))}>"
        case "struct":
            return "struct"
        case other:
            return str(other)


def _rows(schema: dict[str, Any], roles: dict[str, str], depth: int) -> Iterator[SchemaRow]:
    for field in schema.get("fields", []) if depth < MAX_DEPTH else []:
        metadata = field.get("metadata") or {}
        yield SchemaRow(
            name=str(field.get("name", "")),
            type=type_text(field.get("type")),
            nullable=bool(field.get("nullable", True)),
            depth=depth,
            role=roles.get(field.get("name", ""), "") if depth == 0 else "",
            comment=str(metadata.get("comment", "")),
            notes=tuple(_notes(field.get("name", ""), metadata)),
        )
        yield from _rows(_struct_inside(field.get("type")), roles, depth + 1)


def _struct_inside(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    if value.get("type") == "struct":
        return value
    return _struct_inside(value.get("elementType") or value.get("valueType"))


def _notes(name: str, metadata: dict[str, Any]) -> Iterator[str]:
    physical = metadata.get("delta.columnMapping.physicalName")
    if physical and physical != name:
        yield f"stored as {physical}"
    if "delta.generationExpression" in metadata:
        yield f"generated: {metadata['delta.generationExpression']}"
    if any(key.startswith("delta.identity.") for key in metadata):
        yield "identity: writers that insert cannot run at once"
    if "delta.invariants" in metadata:
        yield f"invariant: {metadata['delta.invariants']}"
    if "CURRENT_DEFAULT" in metadata:
        yield f"default {metadata['CURRENT_DEFAULT']}"


def _name(column: str | list[str]) -> str:
    return column if isinstance(column, str) else ".".join(column)


def schema_lines(schema: StructType) -> Iterator[str]:
    """A line a column, nested ones indented: what two versions are compared by."""
    for row in _rows(type_to_json(schema), {}, 0):
        null = "" if row.nullable else " NOT NULL"
        yield f"{'  ' * row.depth}{row.name} {row.type}{null}"
