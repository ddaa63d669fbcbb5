"""Type widening: allowed changes, and their records in a schema (protocol: Type Widening)."""

from collections.abc import Iterator
from typing import Any

from engine.errors import InvalidSchemaError
from engine.schema.types import (
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    iter_types,
    type_from_json,
)

TYPE_CHANGES = "delta.typeChanges"
_WIDER = {
    "byte": {"short", "integer", "long", "double"},
    "short": {"integer", "long", "double"},
    "integer": {"long", "double"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
}
_DIGITS = {
    "byte": 10,
    "short": 10,
    "integer": 10,
    "long": 20,
}  # stored values, not logical ones
_SQL_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
"""Type names some writers record instead of those of a schema."""


def parse_noted_type(noted: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the type recorded by a change, by its name in a schema."""
    return _SQL_NAMES.get(noted, noted) if isinstance(noted, str) else noted


def is_wider(before: DataType, after: DataType) -> bool:
    """Return whether the protocol allows widening a column from one type to the other."""
    if isinstance(after, DecimalType):
        whole = after.precision - after.scale
        if isinstance(before, DecimalType):
            grows = after != before and after.scale >= before.scale
            return grows and whole >= before.precision - before.scale
        name = before.name if isinstance(before, PrimitiveType) else ""
        return whole >= _DIGITS.get(name, 99)
    if isinstance(before, PrimitiveType) and isinstance(after, PrimitiveType):
        return after.name in _WIDER.get(before.name, set())
    return False


def list_unsupported_changes(schema: StructType) -> list[str]:
    """Describe the schema's recorded changes that are unknown to the protocol."""
    return [
        f"the change of {column.name} from {change[0]} to {change[1]}"
        for column, change in _changes(schema)
        if not _is_known(*change)
    ]


def _changes(schema: StructType) -> Iterator[tuple[StructField, tuple[Any, Any]]]:
    for inside in iter_types(schema):
        for column in inside if isinstance(inside, StructType) else ():
            noted = column.metadata.get(TYPE_CHANGES) or ()
            for change in noted if isinstance(noted, list | tuple) else ():
                types = change if isinstance(change, dict) else {}
                yield column, (types.get("fromType"), types.get("toType"))


def _is_known(before: object, after: object) -> bool:
    try:
        types = [type_from_json(parse_noted_type(text)) for text in (before, after)]
    except InvalidSchemaError:
        return False
    return types[0] == types[1] or is_wider(types[0], types[1])
