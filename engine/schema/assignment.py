"""Store assignment: whether and how values of one type are stored in a column of another.

It applies to INSERT, UPDATE and MERGE and decides by types alone; Spark (`engine.spark.write.shape`)
executes the resulting `Storing`, and Arrow its plain casts. Structs are matched by field names at
every depth, in arrays and maps too. Single values are cast by Spark's ANSI CAST, as in delta-spark;
a value out of range fails the write.
"""

from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from engine.errors import SchemaMismatchError
from engine.schema.text_lengths import render_declared_type
from engine.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.schema.write_errors import FieldMismatchError, FieldMissingError, TypeNotStorableError

_VOID = PrimitiveType("void")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_FLOATS = frozenset({"float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_CASTS: dict[str, frozenset[str]] = {
    "string": frozenset({"boolean", "number", "binary", "other", *_TIMES}),
    "binary": frozenset({"string"}),
    "boolean": frozenset({"string", "number"}),
    "number": frozenset({"string", "number", "boolean", "timestamp"}),
    "date": frozenset({"string", *_TIMES}),
    "timestamp": frozenset({"string", "number", *_TIMES}),
    "timestamp_ntz": frozenset({"string", *_TIMES}),
    "variant": frozenset(),
    "other": frozenset(),
}
"""Families of types, and those Spark's ANSI CAST converts to them; `other` are nested types."""
_FITTING: dict[str, frozenset[str]] = {
    **dict.fromkeys(_CASTS, frozenset()),
    "string": _CASTS["string"],
    "binary": frozenset({"string"}),
    "boolean": frozenset({"number"}),
    **dict.fromkeys(_TIMES, _TIMES),
}
"""Families whose every value fits the other; numbers are compared by `_number_fits`."""


@dataclass(frozen=True, slots=True)
class Cast:
    """A value without fields, cast; of the same type or null it stays.

    Attributes:
        source: the value's type.
        target: the column's.
        place: the column, or the field inside it, by its dotted path: for people.
    """

    source: DataType
    target: DataType
    place: str

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be done."""
        return self.source != self.target

    @property
    def may_fail(self) -> bool:
        """Return whether some value of the source type has no value in the target type."""
        return self.is_needed and not _always_fits(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct: each field of the column's type with its source; None is null."""

    source: StructType
    target: StructType
    parts: "tuple[tuple[StructField, Storing] | None, ...]"


@dataclass(frozen=True, slots=True)
class Items:
    """An array, element by element."""

    target: ArrayType
    item: "Storing"


@dataclass(frozen=True, slots=True)
class Entries:
    """A map, entry by entry."""

    target: MapType
    key: "Storing"
    value: "Storing"


Storing: TypeAlias = Cast | Fields | Items | Entries


def plan_storage(
    data: DataType, table: DataType, place: str, *, fills_fields: bool = False
) -> Storing:
    """Plan how values of a type are stored in a column.

    Args:
        data: the values' type.
        table: the column's type.
        place: the column's name, or dotted path, for messages.
        fills_fields: whether fields missing from the values' structs become null, as in a MERGE
            with schema evolution. Otherwise they are refused.

    Raises:
        FieldMissingError: the values' structs lack a field.
        FieldMismatchError: they have a field the column lacks.
        TypeNotStorableError: there is no cast to the column's type.
    """
    match data, table:
        case StructType(), StructType():
            return _fields(data, table, place, fills_fields)
        case ArrayType(), ArrayType():
            item = plan_storage(
                data.element, table.element, f"{place}.element", fills_fields=fills_fields
            )
            return Items(table, item)
        case MapType(), MapType():
            return Entries(
                table,
                plan_storage(data.key, table.key, f"{place}.key", fills_fields=fills_fields),
                plan_storage(data.value, table.value, f"{place}.value", fills_fields=fills_fields),
            )
        case _:
            if not _can_cast(data, table):
                _refuse(place, data, table)
            return Cast(data, table, place)


def is_unchanged(way: Storing) -> bool:
    """Return whether values are stored unchanged: equal fields in equal order, and no casts."""
    match way:
        case Cast():
            return not way.is_needed
        case Items(item=item):
            return is_unchanged(item)
        case Entries(key=key, value=value):
            return is_unchanged(key) and is_unchanged(value)
        case Fields(source=source, target=target, parts=parts):
            return source.names == target.names and all(
                part is not None and is_unchanged(part[1]) for part in parts
            )


def is_storable(data: DataType, table: DataType) -> bool:
    """Return whether values of a type may be stored in a column; some may still be out of range."""
    try:
        plan_storage(data, table, "")
    except SchemaMismatchError:
        return False
    return True


def _fields(data: StructType, table: StructType, place: str, fills_fields: bool) -> Fields:
    for field in data:
        if table.get(field.name) is None:
            what = f"{place} has no field {field.name}: it is a {render_declared_type(table)}."
            remedy = "Leave the field out, or let the schema evolve (WITH SCHEMA EVOLUTION)."
            raise FieldMismatchError(what[:1000], remedy, field="source")
    parts: list[tuple[StructField, Storing] | None] = []
    for field in table:
        mine = data.get(field.name)
        inside = f"{place}.{field.name}"
        if mine is None and not fills_fields:
            what = f"{inside} has no value: the data has {render_declared_type(data)} for {place}."
            raise FieldMissingError(what[:1000], "Add a value for every field.", field="source")
        parts.append(
            None
            if mine is None
            else (mine, plan_storage(mine.type, field.type, inside, fills_fields=fills_fields))
        )
    return Fields(data, table, tuple(parts))


def _refuse(place: str, data: DataType, table: DataType) -> NoReturn:
    given, expected = render_declared_type(data), render_declared_type(table)
    what = f"The column {place} has the type {expected}, but its value has the type {given}."
    remedy = f"Use a value that can be cast to {expected}."
    raise TypeNotStorableError(what[:1000], remedy[:1000], field="assignments")


def _can_cast(data: DataType, table: DataType) -> bool:
    """Return whether Spark's ANSI CAST allows the conversion; nested types cast only to text."""
    return data in {table, _VOID} or _family(data) in _CASTS[_family(table)]


def _always_fits(data: DataType, table: DataType) -> bool:
    source, target = _family(data), _family(table)
    if data == _VOID or source in _FITTING[target]:
        return True
    return source == target == "number" and _number_fits(data, table)


def _number_fits(data: DataType, table: DataType) -> bool:
    """Return whether every number of a type fits the other; floating types take any, rounded."""
    if isinstance(table, DecimalType):
        whole = table.precision - table.scale
        if isinstance(data, DecimalType):
            return whole >= data.precision - data.scale and table.scale >= data.scale
        return whole >= _DIGITS.get(_name(data), 99)
    source, target = _name(data), _name(table)
    if target in _FLOATS:
        return True
    return source in _DIGITS and _DIGITS[source] <= _DIGITS[target]


def _family(data_type: DataType) -> str:
    name = _name(data_type)
    if isinstance(data_type, DecimalType) or name in _DIGITS or name in _FLOATS:
        return "number"
    return name if name in _CASTS else "other"


def _name(data_type: DataType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else ""
