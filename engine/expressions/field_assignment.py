"""Assignment of a struct field by field, keeping fields missing from the new value."""

from collections.abc import Iterator

from engine.expressions.tree import Call, Column, Expression, Literal
from engine.schema.types import BOOLEAN, STRING, DataType, StructField, StructType


def keep_fields(old: Column, new: Column) -> Expression:
    """Return the new value of a column, completed by missing fields from the old one.

    A struct null in both stays null.
    """
    if not isinstance(old.type, StructType) or not _lacks_fields(old.type, new.type):
        return new
    fields, arguments = list[StructField](), list[Expression]()
    for name, value in _iter_fields(old, old.type, new):
        fields.append(StructField(name, value.type))
        arguments += [Literal(name, STRING), value]
    made = StructType(tuple(fields))
    absent = (Call("isnull", (side,), BOOLEAN) for side in (old, new))
    both_absent = Call("and", tuple(absent), BOOLEAN)
    struct = Call("named_struct", tuple(arguments), made)
    return Call("if", (both_absent, Literal(None, made), struct), made)


def _iter_fields(old: Column, kind: StructType, new: Column) -> Iterator[tuple[str, Expression]]:
    for field in kind:
        kept = Column((*old.path, field.name), field.type, old.relation)
        mine = new.type.get(field.name) if isinstance(new.type, StructType) else None
        if mine is None:
            yield field.name, kept
        else:
            inner = Column((*new.path, mine.name), mine.type, new.relation)
            yield field.name, keep_fields(kept, inner)


def _lacks_fields(target: DataType, source: DataType) -> bool:
    """Return whether a struct has fewer fields than its target column, at any depth."""
    if not isinstance(target, StructType) or not isinstance(source, StructType):
        return False
    pairs = ((field, source.get(field.name)) for field in target)
    return any(mine is None or _lacks_fields(field.type, mine.type) for field, mine in pairs)
