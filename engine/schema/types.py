"""Delta's data types and their JSON form (protocol: Schema Serialization Format).

A `StructType` is a value: equality is by content, nothing is changed in place.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from engine.errors import InvalidSchemaError

PRIMITIVES = frozenset(
    (
        *("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary"),
        *("date", "timestamp", "timestamp_ntz", "variant", "void"),
    )
)


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type with only a name, such as `string`, `long`, `timestamp_ntz`."""

    name: str


@dataclass(frozen=True, slots=True)
class ForeignType(PrimitiveType):
    """A type of other engines, kept as the log has it. Its columns can be neither read nor written."""

    json: str


@dataclass(frozen=True, slots=True)
class DecimalType:
    """`decimal(precision,scale)`, precision at most 38."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of one element type."""

    element: "DataType"
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """Keys to values; keys are never null."""

    key: "DataType"
    value: "DataType"
    value_contains_null: bool = True


@dataclass(frozen=True)
class StructField:
    """A column: its metadata has comments, column mapping, defaults, generation, type changes."""

    name: str
    type: "DataType"
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class StructType:
    """Columns in order."""

    fields: tuple[StructField, ...] = ()

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.fields]

    def get(self, name: str) -> StructField | None:
        """Return the column of this name: an exact match, else ignoring case."""
        return next((f for f in self.fields if f.name == name), None) or next(
            (f for f in self.fields if f.name.lower() == name.lower()), None
        )

    def find(self, path: Iterable[str]) -> "tuple[StructField, ...]":
        """Return the fields along a path into structs; empty if it leads nowhere."""
        fields: list[StructField] = []
        inside: DataType = self
        for name in path:
            field = inside.get(name) if isinstance(inside, StructType) else None
            if field is None:
                return ()
            fields.append(field)
            inside = field.type
        return tuple(fields)

    def to_json(self) -> str:
        """Return Delta's schema string."""
        return json.dumps(type_to_json(self), separators=(",", ":"), ensure_ascii=False)


DataType: TypeAlias = PrimitiveType | DecimalType | ArrayType | MapType | StructType

STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VARIANT = PrimitiveType("variant")


_REMEMBERED_CHARACTERS = 65_536
_PRIMITIVES = {name: PrimitiveType(name) for name in PRIMITIVES}
_TYPE_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:[ (<].*)?")
_INCOMPLETE_ALONE = frozenset(("decimal", "struct", "array", "map", "udt"))
"""Types not defined by their name alone, or with wrong parameters."""


def parse_schema(
    source: "str | StructType | Mapping[str, Any]", *, keeps_foreign: bool = True
) -> StructType:
    """Parse Delta's JSON schema (text or parsed); return a schema unchanged.

    Args:
        source: the schema.
        keeps_foreign: whether columns may be of types that this engine does not know
            (`ForeignType`), as in tables that other engines made.

    Raises:
        InvalidSchemaError: not JSON, not a struct, a decimal out of range, something that names no
            type, or an unknown type that is not to be kept.
    """
    if isinstance(source, StructType):
        return source
    if isinstance(source, str) and len(source) <= _REMEMBERED_CHARACTERS:
        return _parse_cached(source, keeps_foreign)  # each statement needs it several times
    return _parse_source(source, keeps_foreign)


def _parse_source(source: "str | Mapping[str, Any]", keeps_foreign: bool) -> StructType:
    try:
        parsed = json.loads(source) if isinstance(source, str) else source
    except (ValueError, RecursionError) as error:
        msg = f"The schema is not valid JSON: {error}."
        remedy = "Pass a StructType or a schema in Delta's JSON, or use a CREATE TABLE statement."
        raise InvalidSchemaError(msg, remedy) from error
    schema = type_from_json(parsed, keeps_foreign=keeps_foreign)
    if not isinstance(schema, StructType):
        msg = f"The schema is a {parsed!r}, not a struct."
        raise InvalidSchemaError(msg)
    return schema


_parse_cached = lru_cache(maxsize=128)(_parse_source)


def type_to_json(data_type: DataType) -> Any:  # noqa: ANN401 - JSON
    """Convert a type to its JSON value."""
    match data_type:
        case PrimitiveType(name):
            return json.loads(data_type.json) if isinstance(data_type, ForeignType) else name
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case ArrayType(element, contains_null):
            return {
                "type": "array",
                "elementType": type_to_json(element),
                "containsNull": contains_null,
            }
        case MapType(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": type_to_json(key),
                "valueType": type_to_json(value),
                "valueContainsNull": value_contains_null,
            }
        case StructType(fields):
            return {"type": "struct", "fields": [_field_to_json(column) for column in fields]}


def type_from_json(value: Any, *, keeps_foreign: bool = False) -> DataType:  # noqa: ANN401 - JSON
    """Parse the JSON value of a type.

    Args:
        value: parsed JSON.
        keeps_foreign: whether to return a type that this engine does not know as a `ForeignType`.

    Raises:
        InvalidSchemaError: it is not a Delta type.
    """
    if keeps_foreign and (foreign := _foreign_type(value)) is not None:
        return foreign
    if isinstance(value, str):
        return _parse_type_name(value)
    kind = value.get("type") if isinstance(value, Mapping) else None

    def read_inner_type(part: Any) -> DataType:  # noqa: ANN401 - JSON
        return type_from_json(part, keeps_foreign=keeps_foreign)

    try:
        if kind == "struct":
            return _struct_from_json(value["fields"], read_inner_type)
        if kind == "array":
            return ArrayType(
                read_inner_type(value["elementType"]), bool(value.get("containsNull", True))
            )
        if kind == "map":
            return MapType(
                read_inner_type(value["keyType"]),
                read_inner_type(value["valueType"]),
                bool(value.get("valueContainsNull", True)),
            )
    except (KeyError, TypeError, RecursionError) as error:
        msg = f"A {kind} type lacks {error}."
        raise InvalidSchemaError(msg) from error
    msg = f"{str(value)[:200]!r} is not a Delta type."
    raise InvalidSchemaError(msg)


def user_type_name(value: Mapping[str, Any]) -> str:
    """Return the class of a user-defined type in a schema, without its package."""
    return str(value.get("class") or value.get("pyClass") or "").rpartition(".")[2]


def _foreign_type(value: Any) -> ForeignType | None:  # noqa: ANN401 - JSON
    """Return a well-formed type unknown here; None if it is known or malformed."""
    kind = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(kind, str):
        return None
    if isinstance(value, Mapping):
        if kind == "udt":
            return ForeignType(f"udt {user_type_name(value)}".strip(), json.dumps(value))
        if kind in _PRIMITIVES:
            return None
    match = _TYPE_NAME.fullmatch(kind)
    if match is None or kind in _PRIMITIVES or match[1] in _INCOMPLETE_ALONE:
        return None
    return ForeignType(kind, json.dumps(value))


def _parse_type_name(name: str) -> DataType:
    if (primitive := _PRIMITIVES.get(name)) is not None:
        return primitive
    if name == "decimal":
        return DecimalType(10, 0)
    if name.startswith("decimal(") and name.endswith(")"):
        precision, _, scale = name[8:-1].partition(",")
        if _is_number(precision) and _is_number(scale) and _fits(int(precision), int(scale)):
            return DecimalType(int(precision), int(scale))
    msg = f"{name[:200]!r} is not a Delta type."
    raise InvalidSchemaError(msg)


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit() and len(text) < 9


def _fits(precision: int, scale: int) -> bool:
    return scale <= precision and 1 <= precision <= 38


def _field_to_json(column: StructField) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": type_to_json(column.type),
        "nullable": column.nullable,
        "metadata": dict(column.metadata),
    }


def _struct_from_json(
    fields: Iterable[Mapping[str, Any]], inside: Callable[[Any], DataType]
) -> StructType:
    parsed = StructType(tuple(_field_from_json(column, inside) for column in fields))
    twice = next((name for name, times in Counter(parsed.names).items() if times > 1), None)
    if twice is not None:
        msg = f"A struct has two fields called {twice!r}."
        raise InvalidSchemaError(msg)
    return parsed


def _field_from_json(value: Any, inside: Callable[[Any], DataType]) -> StructField:  # noqa: ANN401 - JSON
    metadata = value.get("metadata") or {} if isinstance(value, Mapping) else None
    if not isinstance(metadata, Mapping):
        msg = f"{str(value)[:200]!r} is not a field, or its metadata is not a JSON object."
        raise InvalidSchemaError(msg)
    return StructField(
        str(value["name"]),
        inside(value["type"]),
        bool(value.get("nullable", True)),
        dict(metadata),
    )


def iter_nested(
    fields: Sequence[StructField], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield every field with its path, structs before their fields; arrays and maps are leaves."""
    for column in fields:
        path = (*prefix, column.name)
        yield path, column
        if isinstance(column.type, StructType):
            yield from iter_nested(column.type.fields, path)


def iter_types(data_type: DataType) -> Iterator[DataType]:
    """Yield the type and every type inside it, including in arrays and maps."""
    yield data_type
    match data_type:
        case StructType(fields):
            for column in fields:
                yield from iter_types(column.type)
        case ArrayType(element, _):
            yield from iter_types(element)
        case MapType(key, value, _):
            yield from iter_types(key)
            yield from iter_types(value)
        case PrimitiveType() | DecimalType():
            return


def foreign_types(data_type: DataType) -> list[str]:
    """Return the types of other engines in a type, at any depth, for people."""
    types = iter_types(data_type)
    return [f"the type {inside.name}" for inside in types if isinstance(inside, ForeignType)]


def make_nullable(data_type: DataType) -> DataType:
    """Make everything in a type nullable."""
    match data_type:
        case StructType(fields):
            return StructType(
                tuple(
                    StructField(column.name, make_nullable(column.type), metadata=column.metadata)
                    for column in fields
                )
            )
        case ArrayType(element, _):
            return ArrayType(make_nullable(element))
        case MapType(key, value, _):
            return MapType(make_nullable(key), make_nullable(value))
        case PrimitiveType() | DecimalType():
            return data_type
