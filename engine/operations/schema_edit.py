"""A schema with one column changed, added, moved or dropped, at any depth of structs (pure)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.errors import InvalidSchemaError, UnknownColumnError
from engine.schema.text_lengths import declare_type, read_declared_type
from engine.schema.types import DataType, StructField, StructType, type_to_json
from engine.schema.widening import TYPE_CHANGES, is_wider

Change = Callable[[tuple[StructField, ...]], tuple[StructField, ...]]


def edit(schema: StructType, parent: Sequence[str], change: Change) -> StructType:
    """Return the schema with the fields of one struct changed; () is the schema itself.

    Fields inside a column keep their CHAR and VARCHAR lengths, also when moved.

    Raises:
        UnknownColumnError: there is no such struct.
        InvalidSchemaError: the requested field is invalid.
    """
    if not parent:
        return StructType(change(schema.fields))
    field = _struct(schema, parent[0])
    column = declare_type(field, _edit_struct(read_declared_type(field), parent[1:], change))
    return StructType(tuple(column if f is field else f for f in schema.fields))


def _edit_struct(inside: DataType, parent: Sequence[str], change: Change) -> StructType:
    struct = inside if isinstance(inside, StructType) else StructType()
    if not parent:
        return StructType(change(struct.fields))
    field = _struct(struct, parent[0])
    inner = replace(field, type=_edit_struct(field.type, parent[1:], change))
    return StructType(tuple(inner if f is field else f for f in struct.fields))


def _struct(schema: StructType, name: str) -> StructField:
    field = schema.get(name)
    if field is None or not isinstance(field.type, StructType):
        msg = f"There is no struct column {name}."
        raise UnknownColumnError(msg, f"The columns are {', '.join(schema.names[:20])}.")
    return field


def insert_fields(new: Sequence[StructField], *, first: bool, after: str) -> Change:
    """Return a change to insert fields first, after a column, or last."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        names = [field.name.lower() for field in fields]
        for column in new:
            if column.name.lower() in names:
                msg = f"There is a column {column.name} already."
                raise InvalidSchemaError(msg, "Choose another name.", field="columns")
        place = 0 if first else _index(fields, after) + 1 if after else len(fields)
        return (*fields[:place], *new, *fields[place:])

    return change


def drop_field(name: str) -> Change:
    """Return a change dropping a field."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        place = _index(fields, name)
        if len(fields) == 1:
            msg = f"{name} is the only column."
            raise InvalidSchemaError(msg, "Drop the table instead.", field="columns")
        return fields[:place] + fields[place + 1 :]

    return change


def change_field(name: str, alter: Callable[[StructField], StructField]) -> Change:
    """Return a change altering a field in place."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        place = _index(fields, name)
        new = alter(fields[place])
        others = [field.name.lower() for i, field in enumerate(fields) if i != place]
        if new.name.lower() in others:
            msg = f"There is a column {new.name} already."
            raise InvalidSchemaError(msg, "Choose another name.", field="new_name")
        return (*fields[:place], new, *fields[place + 1 :])

    return change


def move_field(name: str, *, first: bool, after: str) -> Change:
    """Return a change moving a field among its siblings."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        place = _index(fields, name)
        rest = fields[:place] + fields[place + 1 :]
        return insert_fields([fields[place]], first=first, after=after)(rest)

    return change


def widen_field(column: StructField, new_type: DataType) -> StructField:
    """Widen a field's type and record the change as in the protocol (Type Widening).

    Raises:
        InvalidSchemaError: the type is not wider.
    """
    if not is_wider(column.type, new_type):
        shown, asked = type_to_json(column.type), type_to_json(new_type)
        msg = f"{column.name} cannot change from {shown} to {asked}."
        raise InvalidSchemaError(msg, "Only wider types are possible.", field="new_type")
    note = {"fromType": type_to_json(column.type), "toType": type_to_json(new_type)}
    changes = list(column.metadata.get(TYPE_CHANGES, []))
    return replace(
        column, type=new_type, metadata={**column.metadata, TYPE_CHANGES: [*changes, note]}
    )


def _index(fields: tuple[StructField, ...], name: str) -> int:
    for i, field in enumerate(fields):
        if field.name.lower() == name.lower():
            return i
    msg = f"There is no column {name}."
    raise UnknownColumnError(msg, f"The columns are {', '.join(f.name for f in fields[:20])}.")
