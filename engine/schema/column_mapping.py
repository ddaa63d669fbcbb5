"""Column mapping: logical names in the schema, physical names in files and the log.

Protocol: Column Mapping. In mode `name` files are read by physical name, in mode `id` by field id.

Array elements and map keys and values have ids but no fields of their own (protocol: Iceberg
Compatibility V2). The nearest enclosing field stores them, by Parquet path: the field's physical
name, then `element`, `key` or `value` for each level, separated by dots.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType

MODE_KEY = "delta.columnMapping.mode"
MAX_ID_KEY = "delta.columnMapping.maxColumnId"
ID_KEY = "delta.columnMapping.id"
PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
ICEBERG_COMPAT_KEY = "delta.enableIcebergCompatV2"

NESTED_IDS_KEY = "delta.columnMapping.nested.ids"


def column_mapping_mode(configuration: Mapping[str, str]) -> str:
    """Return the column mapping mode: `none`, `name` or `id`."""
    return str(configuration.get(MODE_KEY) or "none").lower()


def physical_name(column: StructField, mode: str) -> str:
    """Return the name of a column in files, partition values and statistics."""
    return (
        column.name if mode == "none" else str(column.metadata.get(PHYSICAL_NAME_KEY, column.name))
    )


def field_id(column: StructField) -> int | None:
    """Return the Parquet field id of a column, None if it has none."""
    number = column.metadata.get(ID_KEY)
    return number if isinstance(number, int) else None


def physical_schema(schema: StructType, mode: str) -> StructType:
    """Return the schema with physical names at every level."""
    return schema if mode == "none" else _physical_struct(schema, mode)


def physical_path(schema: StructType, path: tuple[str, ...], mode: str) -> tuple[str, ...]:
    """Return the physical names along a logical path; unknown names stay unchanged."""
    names: list[str] = []
    inside: DataType | None = schema
    for name in path:
        column = inside.get(name) if isinstance(inside, StructType) else None
        names.append(name if column is None else physical_name(column, mode))
        inside = None if column is None else column.type
    return tuple(names)


def map_columns(
    schema: StructType, configuration: Mapping[str, str], *, keep_names: bool = False
) -> tuple[StructType, dict[str, str]]:
    """Add the ids and physical names required by a configuration; return both updated.

    Tables without column mapping stay unchanged. Elements, keys and values get ids in tables for
    Iceberg clients. `keep_names` as in `assign_mapping`.
    """
    if column_mapping_mode(configuration) == "none":
        return schema, dict(configuration)
    highest_id = int(configuration.get(MAX_ID_KEY, 0))
    mapped, highest = assign_mapping(schema, highest_id, keep_names=keep_names)
    if str(configuration.get(ICEBERG_COMPAT_KEY)).lower() == "true":
        mapped, highest = assign_nested_ids(mapped, highest, PHYSICAL_NAME_KEY)
    return mapped, {**configuration, MAX_ID_KEY: str(highest)}


def assign_mapping(
    schema: StructType, max_id: int = 0, *, keep_names: bool = False
) -> tuple[StructType, int]:
    """Assign an id and a physical name to every column without them; return the highest id.

    Args:
        schema: logical.
        max_id: the highest id used so far.
        keep_names: use logical names as physical ones, for files written before the mapping.
    """
    assigner = _Assigner(max([max_id, *_ids(schema)]), keep_names)
    return assigner.struct(schema), assigner.max_id


def _ids(data_type: DataType) -> list[int]:
    match data_type:
        case StructType(fields):
            own = [number for field in fields if (number := field_id(field)) is not None]
            own += [number for field in fields for number in read_nested_ids(field).values()]
            return own + [number for field in fields for number in _ids(field.type)]
        case ArrayType(element, _):
            return _ids(element)
        case MapType(key, value, _):
            return _ids(key) + _ids(value)
        case _:
            return []


class _Assigner:
    def __init__(self, max_id: int, keep_names: bool) -> None:
        self.max_id = max_id
        self._keep_names = keep_names

    def struct(self, schema: StructType) -> StructType:
        return StructType(tuple(self._field(column) for column in schema))

    def _field(self, column: StructField) -> StructField:
        metadata: dict[str, Any] = dict(column.metadata)
        if field_id(column) is None:
            self.max_id += 1
            metadata[ID_KEY] = self.max_id
        if self._keep_names:  # an unused physical name does not occur in files
            metadata[PHYSICAL_NAME_KEY] = column.name
        elif PHYSICAL_NAME_KEY not in metadata:
            metadata[PHYSICAL_NAME_KEY] = f"col-{uuid.uuid4()}"
        return replace(column, type=self._type(column.type), metadata=metadata)

    def _type(self, data_type: DataType) -> DataType:
        match data_type:
            case StructType():
                return self.struct(data_type)
            case ArrayType(element, contains_null):
                return ArrayType(self._type(element), contains_null)
            case MapType(key, value, contains_null):
                return MapType(self._type(key), self._type(value), contains_null)
            case _:
                return data_type


def _physical_struct(schema: StructType, mode: str) -> StructType:
    return StructType(
        tuple(
            replace(
                column, name=physical_name(column, mode), type=_physical_type(column.type, mode)
            )
            for column in schema
        )
    )


def _physical_type(data_type: DataType, mode: str) -> DataType:
    match data_type:
        case StructType():
            return _physical_struct(data_type, mode)
        case ArrayType(element, contains_null):
            return ArrayType(_physical_type(element, mode), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_physical_type(key, mode), _physical_type(value, mode), contains_null)
        case _:
            return data_type


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
