"""Field ids of array elements and of map keys and values, which have no fields of their own.

Protocol: Iceberg Compatibility V2. The nearest enclosing field stores them, by Parquet path: the
field's physical name, then `element`, `key` or `value` for each level, separated by dots.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType

NESTED_IDS_KEY = "delta.columnMapping.nested.ids"


def read_nested_ids(column: StructField) -> Mapping[str, int]:
    """Return the ids below a field, by path."""
    ids = column.metadata.get(NESTED_IDS_KEY)
    if not isinstance(ids, Mapping):
        return {}
    return {str(path): number for path, number in ids.items() if type(number) is int}


def assign_nested_ids(
    schema: StructType, max_id: int, physical_name_key: str
) -> tuple[StructType, int]:
    """Assign an id to every element, key and value without one; return the highest id."""
    fields = []
    for column in schema:
        ids = dict(read_nested_ids(column))
        root = str(column.metadata.get(physical_name_key, column.name))
        for path in iter_nested_paths(column.type, root):
            if path not in ids:
                max_id += 1
                ids[path] = max_id
        inner, max_id = _assign_inner_ids(column.type, max_id, physical_name_key)
        metadata = {**column.metadata, NESTED_IDS_KEY: ids} if ids else column.metadata
        fields.append(replace(column, type=inner, metadata=metadata))
    return StructType(tuple(fields)), max_id


def iter_nested_paths(data_type: DataType, path: str) -> Iterator[str]:
    """Yield the paths of elements, keys and values below a field, stopping at structs."""
    match data_type:
        case ArrayType(element, _):
            yield f"{path}.element"
            yield from iter_nested_paths(element, f"{path}.element")
        case MapType(key, value, _):
            yield f"{path}.key"
            yield from iter_nested_paths(key, f"{path}.key")
            yield f"{path}.value"
            yield from iter_nested_paths(value, f"{path}.value")
        case _:
            return


def _assign_inner_ids(
    data_type: DataType, max_id: int, physical_name_key: str
) -> tuple[DataType, int]:
    """Assign nested ids in a type's inner structs; return the highest id."""
    match data_type:
        case StructType():
            return assign_nested_ids(data_type, max_id, physical_name_key)
        case ArrayType(element, contains_null):
            element, max_id = _assign_inner_ids(element, max_id, physical_name_key)
            return ArrayType(element, contains_null), max_id
        case MapType(key, value, contains_null):
            key, max_id = _assign_inner_ids(key, max_id, physical_name_key)
            value, max_id = _assign_inner_ids(value, max_id, physical_name_key)
            return MapType(key, value, contains_null), max_id
        case _:
            return data_type, max_id
