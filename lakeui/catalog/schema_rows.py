"""A schema as rows to read: nested fields indented under their parent."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from engine.schema.column_paths import column_path
from engine.schema.types import StructType, type_to_json, user_type_name
from lakeui.catalog.models import Table

MAX_DEPTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """A column. Facts unrecorded by its writer are None or empty.

    `path` is its dotted name from the top; `role` its use by the table: partition, cluster, or
    nothing. `mapping_id` and `physical_name` are of column mapping. `identity` is in words.
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
        """Its unusual traits, in words."""
        renamed = self.physical_name not in ("", self.name)
        said = {
            f"stored as {self.physical_name}": renamed,
            f"generated: {self.generated}": self.generated,
            f"identity, {self.identity}": self.identity,
            f"invariant: {self.invariant}": self.invariant,
            f"default {self.default}": self.default,
        }
        return tuple(text for text, holds in said.items() if holds)


class SchemaRows(Sequence[SchemaRow]):
    """The columns of a mirrored schema, nested ones after their parent; empty without a schema.

    A schema may have 50,000 columns: a row is built when it is requested.
    """

    def __init__(self, table: Table, part_of_name: str = "") -> None:
        """Select the columns whose dotted name contains the part, in any case of letters."""
        self._roles = dict.fromkeys(table.partition_columns, "partition")
        self._roles |= {_name(column): "cluster" for column in table.clustering_columns}
        part = part_of_name.casefold()
        self._places = [
            place for place in _places(table.schema, 0) if part in place.path.casefold()
        ]

    @overload
    def __getitem__(self, at: int) -> SchemaRow: ...

    @overload
    def __getitem__(self, at: slice) -> list[SchemaRow]: ...

    def __getitem__(self, at: int | slice) -> SchemaRow | list[SchemaRow]:
        if isinstance(at, slice):
            return [_row(place, self._roles) for place in self._places[at]]
        return _row(self._places[at], self._roles)

    def __len__(self) -> int:
        return len(self._places)


def top_fields(table: Table) -> list[dict[str, Any]]:
    """Return the top-level columns of the mirrored schema, as Delta's JSON has them."""
    fields = table.schema.get("fields") if isinstance(table.schema, dict) else None
    return fields if isinstance(fields, list) else []


def top_names(table: Table) -> tuple[str, ...]:
    """Return the names of top-level columns."""
    return tuple(str(field.get("name", "")) for field in top_fields(table))


def schema_head(table: Table, limit: int) -> dict[str, Any]:
    """Delta's schema JSON with the first columns at the top alone."""
    schema = table.schema if isinstance(table.schema, dict) else {}
    return schema | {"fields": top_fields(table)[:limit]} if schema else {}


def type_text(value: object) -> str:
    """Return a Delta type as SQL writes it; a user-defined type by its class and its storage."""
    inside = value if isinstance(value, dict) else {"type": value}
    match inside.get("type"):
        case "array":
            return f"array<{type_text(inside.get('elementType'))}>"
        case "map":
            return f"map<{type_text(inside.get('keyType'))}, {type_text(inside.get('valueType'))}>"
        case "udt":
            return f"{user_type_name(inside) or 'udt'} ({type_text(inside.get('sqlType'))})"
        case other:
            return str(other)


class _Place(NamedTuple):
    """A column's position and its field in the schema."""

    field: dict[str, Any]
    path: str
    depth: int


def _places(schema: object, depth: int, inside: str = "") -> Iterator[_Place]:
    fields = schema.get("fields") if isinstance(schema, dict) and depth < MAX_DEPTH else None
    for field in fields if isinstance(fields, list) else []:
        path = f"{inside}{field.get('name', '')}"
        yield _Place(field, path, depth)
        if isinstance(field.get("type"), dict):
            yield from _places(_struct_inside(field["type"]), depth + 1, f"{path}.")


def _row(place: _Place, roles: dict[str, str]) -> SchemaRow:
    field = place.field
    return SchemaRow(
        name=str(field.get("name", "")),
        path=place.path,
        type=type_text(field.get("type")),
        nullable=bool(field.get("nullable", True)),
        depth=place.depth,
        role=roles.get(place.path, ""),
        **_read_column_metadata(field.get("metadata") or {}),
    )


def _struct_inside(value: object) -> object:
    """Return the struct in a type, within arrays and maps too; None if there is none."""
    if not isinstance(value, dict) or value.get("type") == "struct":
        return value
    return _struct_inside(value.get("elementType") or value.get("valueType"))


def _read_column_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the facts in a column's metadata."""
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
    return f"{text}: inserts cannot run concurrently"


def _invariant(value: object) -> str:
    """Return its condition, without the JSON around it by legacy writers."""
    if not isinstance(value, str):
        return ""
    try:
        return str(json.loads(value)["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return value


def _name(column: str | list[str]) -> str:
    return ".".join(column_path(column) if isinstance(column, str) else column)


def schema_lines(schema: StructType) -> Iterator[str]:
    """Iterate over one line per column, nested ones indented, for comparing versions."""
    for field, _, depth in _places(type_to_json(schema), 0):
        null = "" if field.get("nullable", True) else " NOT NULL"
        yield f"{'  ' * depth}{field.get('name', '')} {type_text(field.get('type'))}{null}"
