"""Schema evolution: a table's columns merged with new columns of its data, at every depth.

A type may become wider, and the schema records that it did (protocol: Type Widening).
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from engine.errors import InvalidSchemaError, SchemaMismatchError
from engine.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    iter_types,
    type_from_json,
    type_to_json,
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


def merge_schemas(table: StructType, data: StructType, *, widens: bool = False) -> StructType:
    """Add the data's new columns to the table's, also inside arrays and maps.

    Args:
        table: the table's columns; they keep their order, and new ones come last.
        data: the columns of the data.
        widens: whether a column takes the data's type if it is wider (type widening).

    Raises:
        SchemaMismatchError: a new column has only nulls and therefore no type.
    """
    fields = [_merge_field(column, data.get(column.name), widens) for column in table]
    new = [_new(column) for column in data if table.get(column.name) is None]
    return StructType((*fields, *new))


def select_source_columns(
    source: StructType, assigned: Collection[tuple[str, ...]], *, takes_all: bool
) -> StructType:
    """Select the columns of a MERGE's source its target must have, as delta-spark does.

    `assigned` are the assigned paths of all clauses, in lower case. `takes_all`: a clause sets `*`.
    """
    return _select_fields(source, (), assigned, takes_all)


def _select_fields(
    struct: StructType,
    around: tuple[str, ...],
    assigned: Collection[tuple[str, ...]],
    takes_all: bool,
) -> StructType:
    fields = []
    for field in struct:
        path = (*around, field.name.lower())
        inside = any(other[: len(path)] == path for other in assigned)
        if path in assigned or (takes_all and not isinstance(field.type, StructType)):
            fields.append(field)
        elif isinstance(field.type, StructType) and (inside or takes_all):
            fields.append(
                replace(field, type=_select_fields(field.type, path, assigned, takes_all))
            )
    return StructType(tuple(fields))


def _merge_field(table: StructField, data: StructField | None, widens: bool) -> StructField:
    if data is None:
        return table
    new_type = _merge_type(table.type, data.type, widens)
    if new_type == table.type:
        return table
    if not widens or not is_wider(table.type, new_type):
        return replace(table, type=new_type)
    note = {"fromType": type_to_json(table.type), "toType": type_to_json(new_type)}
    changes = [*table.metadata.get(TYPE_CHANGES, []), note]
    return replace(table, type=new_type, metadata={**table.metadata, TYPE_CHANGES: changes})


def _merge_type(table: DataType, data: DataType, widens: bool) -> DataType:
    match table, data:
        case StructType(), StructType():
            return merge_schemas(table, data, widens=widens)
        case ArrayType(), ArrayType():
            return replace(table, element=_merge_inner_type(table.element, data.element))
        case MapType(), MapType():
            return replace(
                table,
                key=_merge_inner_type(table.key, data.key),
                value=_merge_inner_type(table.value, data.value),
            )
        case _:
            return data if widens and is_wider(table, data) else table


def _merge_inner_type(table: DataType, data: DataType) -> DataType:
    """Merge types inside an array or map, without widening: no field could record it."""
    return _merge_type(table, data, widens=False)


def _new(column: StructField) -> StructField:
    if column.type == PrimitiveType("void"):
        msg = f"The type of the new column {column.name} is unknown, because it has only nulls."
        raise SchemaMismatchError(msg, "Remove it, or cast it in the source.", field="source")
    return StructField(column.name, column.type)


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
