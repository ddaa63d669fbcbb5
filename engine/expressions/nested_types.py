"""Result types of functions on arrays, maps, structs and JSON."""

from collections.abc import Sequence

from engine.expressions.tree import VOID
from engine.expressions.types import common_type
from engine.schema.types import (
    STRING,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

VARIANT = PrimitiveType("variant")


def array_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of array(…)."""
    element = common_type(types)
    return None if element in {None, VOID} else ArrayType(element)


def map_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map(key, value, …)."""
    if len(types) % 2:
        return None
    key, value = common_type(types[::2]), common_type(types[1::2])
    if key in {None, VOID} or value in {None, VOID} or _holds_map(key):
        return None
    return MapType(key, value)


def _holds_map(data_type: DataType | None) -> bool:
    match data_type:
        case MapType():
            return True
        case ArrayType(element):
            return _holds_map(element)
        case StructType(fields):
            return any(_holds_map(field.type) for field in fields)
        case _:
            return data_type == VARIANT


def is_comparable(data_type: DataType) -> bool:
    """Return whether values of a type can be compared: it contains no map."""
    return not _holds_map(data_type)


def keys_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_keys(m)."""
    return ArrayType(types[0].key) if isinstance(types[0], MapType) else None


def values_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_values(m)."""
    return ArrayType(types[0].value) if isinstance(types[0], MapType) else None


def map_of_arrays(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_from_arrays(keys, values)."""
    match types:
        case [ArrayType(key), ArrayType(value)] if not _holds_map(key):
            return MapType(key, value)
    return None


def same_array(types: Sequence[DataType]) -> DataType | None:
    """Return the first array's type if its elements are comparable with the other arguments."""
    first = types[0]
    if not isinstance(first, ArrayType) or not is_comparable(first.element):
        return None
    for other in types[1:]:
        inner = other.element if isinstance(other, ArrayType) else other
        if common_type((first.element, inner)) != first.element:
            return None
    return first


def first_array_type(types: Sequence[DataType]) -> DataType | None:
    """Return the array type of the first argument."""
    return types[0] if isinstance(types[0], ArrayType) else None


def one_element(types: Sequence[DataType]) -> DataType | None:
    """Return the array's element type if it is comparable."""
    first = types[0]
    return first.element if isinstance(first, ArrayType) and is_comparable(first.element) else None


def flatten_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of flatten(array of arrays)."""
    first = types[0]
    inner = first.element if isinstance(first, ArrayType) else None
    return inner if isinstance(inner, ArrayType) else None


def array_join_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of array_join(array of texts, delimiter)."""
    first = types[0]
    return STRING if isinstance(first, ArrayType) and first.element == STRING else None


def transform_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of transform(array, lambda)."""
    return ArrayType(types[1])


def zip_with_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of zip_with(array, array, lambda)."""
    return ArrayType(types[2])


def aggregate_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of aggregate(array, start, merge, finish); merge must return start's type."""
    if types[1] != types[2]:
        return None
    return types[-1]


def first_map_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_filter(map, lambda)."""
    return types[0]


def new_keys(types: Sequence[DataType]) -> DataType | None:
    """Return the type of transform_keys(map, lambda)."""
    first = types[0]
    return MapType(types[1], first.value) if isinstance(first, MapType) else None


def new_values(types: Sequence[DataType]) -> DataType | None:
    """Return the type of transform_values(map, lambda)."""
    first = types[0]
    return MapType(first.key, types[1]) if isinstance(first, MapType) else None


def struct_of(names: Sequence[str], types: Sequence[DataType]) -> StructType:
    """Return the type of named_struct(name, value, …)."""
    return StructType(tuple(map(StructField, names, types)))


LAMBDAS = {
    "transform": ((1, "element"), (1, 2)),
    "filter": ((1, "element"), (1, 2)),
    "exists": ((1, "element"), (1,)),
    "forall": ((1, "element"), (1,)),
    "zip_with": ((2, "elements"), (2,)),
    "aggregate": ((2, "merge"), (2,)),
    "map_filter": ((1, "entry"), (2,)),
    "transform_keys": ((1, "entry"), (2,)),
    "transform_values": ((1, "entry"), (2,)),
}
"""Functions with a lambda: the number of values before it, its arguments, and the allowed numbers of
variables.
"""


def variables(kind: str, types: Sequence[DataType], count: int) -> list[DataType] | None:
    """Return the types of a lambda's variables after values of these types; None if invalid."""
    from_integer = PrimitiveType("integer")
    match kind, types:
        case "element", [ArrayType(element), *_]:
            return [element, from_integer][:count]
        case "elements", [ArrayType(one), ArrayType(other)]:
            return [one, other]
        case "merge", [ArrayType(element), start]:
            return [start, element] if start != VOID else None
        case "entry", [MapType(key, value), *_]:
            return [key, value]
        case _:
            return None
