"""A struct assigned field by field, where the fields that it lacks are to stay as they are."""

from engine.expressions.tree import Column, Expression
from engine.schema.types import DataType, StructType


def by_field(
    path: tuple[str, ...], target: DataType, value: Column
) -> dict[tuple[str, ...], Expression]:
    """The value of a column; of a struct that lacks some of its fields those that it has."""
    if not _lacks_fields(target, value.type):
        return {path: value}
    assignments: dict[tuple[str, ...], Expression] = {}
    for field in target if isinstance(target, StructType) else ():
        mine = value.type.get(field.name) if isinstance(value.type, StructType) else None
        if mine is not None:
            inner = Column((*value.path, mine.name), mine.type, value.relation)
            assignments |= by_field((*path, field.name), field.type, inner)
    return assignments


def _lacks_fields(target: DataType, source: DataType) -> bool:
    """Whether a struct has fewer fields than the column it is for, at any depth of structs."""
    if not isinstance(target, StructType) or not isinstance(source, StructType):
        return False
    pairs = ((field, source.get(field.name)) for field in target)
    return any(mine is None or _lacks_fields(field.type, mine.type) for field, mine in pairs)
