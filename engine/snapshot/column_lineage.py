"""Values of a version converted to the columns of a later one, at every level.

A column is identified by its physical name: a rename keeps it, and a new column under an old name
has another one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from engine.errors import RequestError
from engine.schema.column_mapping import physical_name
from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType
from engine.snapshot.conform import list_of, map_of, struct_of, target_type


@dataclass(frozen=True, slots=True)
class MappingModes:
    """The column mapping of the earlier version and of the later one."""

    earlier: str
    later: str


def sources_of(
    later: Iterable[StructField], earlier: Iterable[StructField], modes: MappingModes
) -> dict[str, StructField | None]:
    """Map each column of the later version to its column in the earlier one; None for new columns.

    If the two share no physical names, as after CREATE OR REPLACE, logical names are compared.
    """
    columns = list(earlier)
    held = {physical_name(column, modes.earlier).lower(): column for column in columns}
    places = {column.name: physical_name(column, modes.later).lower() for column in later}
    if not held.keys() & set(places.values()):
        held = {column.name.lower(): column for column in columns}
        places = {name: name.lower() for name in places}
    return {name: held.get(place) for name, place in places.items()}


def rows_as_later(
    rows: pa.Table,
    sources: Mapping[str, StructField | None],
    later: StructType,
    modes: MappingModes,
    field: str,
) -> pa.Table:
    """Convert rows to the columns and types of a later version; columns without a source are null.

    Raises:
        RequestError: values do not fit a column's later type; the error names `field`.
    """
    at = {name: place for place, name in enumerate(rows.column_names)}
    columns = []
    for column in later:
        source = sources[column.name]
        columns.append(
            pa.chunked_array([pa.nulls(rows.num_rows, target_type(column.type))])
            if source is None
            else _convert_values(rows.column(at[source.name]), source, column, modes, field)
        )
    return pa.Table.from_arrays(columns, names=later.names)


def _convert_values(
    values: pa.ChunkedArray,
    source: StructField,
    column: StructField,
    modes: MappingModes,
    field: str,
) -> pa.ChunkedArray:
    try:
        return convert_to_later_type(values, source.type, column.type, modes)
    except pa.ArrowException as error:
        msg = f"The column {column.name} has another type in the earlier version, which its values do not fit."
        way = "Compare versions before the type was changed, or versions after it."
        raise RequestError(msg, way, field=field) from error


def convert_to_later_type(
    values: pa.ChunkedArray, earlier: DataType, later: DataType, modes: MappingModes
) -> pa.ChunkedArray:
    """Convert the values of a column to its later type.

    Raises:
        pa.ArrowException: they do not fit.
    """
    kind = target_type(later)
    if earlier == later and values.type == kind:
        return values
    chunks = [_convert_array(chunk, earlier, later, modes) for chunk in values.chunks]
    return pa.chunked_array(chunks, type=kind)


def _convert_array(
    array: pa.Array, earlier: DataType, later: DataType, modes: MappingModes
) -> pa.Array:
    match earlier, later:
        case StructType(), StructType():
            return _struct_as_later(array, earlier, later, modes)
        case ArrayType(element, _), ArrayType(later_element, _):
            return list_of(
                array,
                lambda inner: _convert_array(inner, element, later_element, modes),
                later_element,
            )
        case MapType(key, value, _), MapType(later_key, later_value, _):
            return map_of(
                array,
                lambda keys: _convert_array(keys, key, later_key, modes),
                lambda items: _convert_array(items, value, later_value, modes),
            )
        case _:
            return array.cast(target_type(later))


def _struct_as_later(
    array: pa.Array, earlier: StructType, later: StructType, modes: MappingModes
) -> pa.Array:
    sources = sources_of(later, earlier, modes)
    children = dict(zip(earlier.names, array.flatten(), strict=True))
    columns = []
    for column in later:
        source = sources[column.name]
        columns.append(
            pa.nulls(len(array), target_type(column.type))
            if source is None
            else _convert_array(children[source.name], source.type, column.type, modes)
        )
    return struct_of(array, columns, later)
