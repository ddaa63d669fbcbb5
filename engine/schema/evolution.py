"""Schema evolution: a table's columns merged with new columns of its data, at every depth."""

from collections.abc import Collection
from dataclasses import replace

from engine.errors import SchemaMismatchError
from engine.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    type_to_json,
)
from engine.schema.widening import TYPE_CHANGES, is_wider


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

    Args:
        source: the source's columns.
        assigned: the assigned paths of all clauses, in lower case.
        takes_all: whether a clause sets `*`.
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
        msg = f"The new column {column.name} has no values to tell its type."
        raise SchemaMismatchError(msg, "Leave it out, or cast it in the source.", field="source")
    return StructField(column.name, column.type)
