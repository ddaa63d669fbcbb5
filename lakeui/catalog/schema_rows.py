"""A schema as rows to read: nested fields indented under their parent."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.schema.types import StructType, type_to_json
from lakeui.catalog.models import Table

MAX_DEPTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """A column. What its writer did not say is None or empty.

    `path` is its dotted name from the top; `role` what the table does with it: partition, cluster,
    or nothing. `mapping_id` and `physical_name` are of column mapping. `identity` is in words.
    """

    name: str
    path: str
    type: str
    nullable: bool
    depth: int
    role: str = ""
    comment: str = ""
    default: str = ""
    generated: str = ""
    identity: str = ""
    invariant: str = ""
    mapping_id: int | None = None
    physical_name: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is unusual about it, in words."""
        renamed = self.physical_name not in ("", self.name)
        said = {
            f"stored as {self.physical_name}": renamed,
            f"generated: {self.generated}": self.generated,
            f"identity, {self.identity}": self.identity,
            f"invariant: {self.invariant}": self.invariant,
            f"default {self.default}": self.default,
        }
        return tuple(text for text, holds in said.items() if holds)


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


def _rows(
    schema: dict[str, Any], roles: dict[str, str], depth: int, inside: str = ""
) -> Iterator[SchemaRow]:
    fields = schema.get("fields") if depth < MAX_DEPTH else None
    for field in fields if isinstance(fields, list) else []:
        name, metadata = str(field.get("name", "")), field.get("metadata") or {}
        path = f"{inside}{name}"
        yield SchemaRow(
            name=name,
            path=path,
            type=type_text(field.get("type")),
            nullable=bool(field.get("nullable", True)),
            depth=depth,
            role=roles.get(path, ""),
            **_said(metadata),
        )
        yield from _rows(_struct_inside(field.get("type")), roles, depth + 1, f"{path}.")


def _struct_inside(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    if value.get("type") == "struct":
        return value
    return _struct_inside(value.get("elementType") or value.get("valueType"))


def _said(metadata: dict[str, Any]) -> dict[str, Any]:
    """What a column's metadata says of it."""
    mapping_id = metadata.get("delta.columnMapping.id")
    return {
        "comment": str(metadata.get("comment", "")),
        "default": str(metadata.get("CURRENT_DEFAULT", "")),
        "generated": str(metadata.get("delta.generationExpression", "")),
        "identity": _identity(metadata),
        "invariant": _invariant(metadata.get("delta.invariants")),
        "mapping_id": mapping_id if isinstance(mapping_id, int) else None,
        "physical_name": str(metadata.get("delta.columnMapping.physicalName", "")),
    }


def _identity(metadata: dict[str, Any]) -> str:
    values = {
        key.removeprefix("delta.identity."): value
        for key, value in metadata.items()
        if key.startswith("delta.identity.")
    }
    if not values:
        return ""
    text = f"from {values.get('start', '?')} by {values.get('step', '?')}"
    if (highest := values.get("highWaterMark")) is not None:
        text += f", {highest} reached"
    return f"{text}: writers that insert cannot run at once"


def _invariant(value: object) -> str:
    """Its condition, out of the JSON that legacy writers wrapped it in."""
    if not isinstance(value, str):
        return ""
    try:
        return str(json.loads(value)["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return value


def _name(column: str | list[str]) -> str:
    return column if isinstance(column, str) else ".".join(column)


def schema_lines(schema: StructType) -> Iterator[str]:
    """A line a column, nested ones indented: what two versions are compared by."""
    for row in _rows(type_to_json(schema), {}, 0):
        null = "" if row.nullable else " NOT NULL"
        yield f"{'  ' * row.depth}{row.name} {row.type}{null}"
