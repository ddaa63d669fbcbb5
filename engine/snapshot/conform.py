"""Columns of a data file converted to the table's schema.

Columns are found by physical name or field id at every level; missing ones are null; values are
widened if the table's type has changed since. Every result is nullable: nullability is a promise of
the table, not of an array.
"""

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import DataFileError, UnsupportedFeatureError
from engine.log.parquet_limits import reason_of
from engine.schema.arrow import VARIANT_STORAGE, to_arrow_type
from engine.schema.column_mapping import field_id, physical_name
from engine.schema.types import (
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    make_nullable,
)

_FIELD_ID = b"PARQUET:field_id"
_A_TABLE = "A table with this file"


def find_fields(
    fields: list[pa.Field], expected: Iterable[StructField], mode: str, columns: StructType
) -> dict[str, int | None]:
    """Return each column's index among a file's fields; `find_field` for thousands of columns."""
    by_name: dict[str, int] = {}
    for place, candidate in enumerate(fields):
        by_name.setdefault(candidate.name, place)
    exact = {} if mode == "id" else by_name
    places = ((column, exact.get(physical_name(column, mode))) for column in expected)
    return {
        column.name: find_field(fields, column, mode, columns) if place is None else place
        for column, place in places
    }


def find_field(
    fields: list[pa.Field], expected: StructField, mode: str, columns: StructType
) -> int | None:
    """Return the index of a column among a file's fields: by field id in mode `id`, else by name.

    A file without field ids is read by physical names. Names may differ in case, unless another of
    `columns` has the name exactly.
    """
    identity = field_id(expected)
    if mode == "id" and identity is not None and any(_id_of(field) is not None for field in fields):
        return next(
            (i for i, candidate in enumerate(fields) if _id_of(candidate) == identity), None
        )
    name = physical_name(expected, mode)
    exact = next((i for i, candidate in enumerate(fields) if candidate.name == name), None)
    if exact is not None:
        return exact
    others = {physical_name(column, mode) for column in columns}
    return next(
        (
            i
            for i, candidate in enumerate(fields)
            if candidate.name.lower() == name.lower() and candidate.name not in others
        ),
        None,
    )


def conform_column(column: pa.ChunkedArray, field: StructField, mode: str) -> pa.ChunkedArray:
    """Convert a file's column to the table's type.

    Raises:
        DataFileError: the file's type cannot become the table's.
        UnsupportedFeatureError: a shredded variant.
    """
    target = target_type(field.type)
    if _has_target_type(column.type, target, mode):
        return column
    try:
        chunks = [_conform(chunk, field.type, mode) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=target)
    except (pa.ArrowException, ValueError, TypeError, AttributeError) as error:
        msg = f"Column {field.name} of a data file is {column.type}, which cannot be read as {target}: {reason_of(error)}."
        raise DataFileError(msg, "Rewrite the file with the engine that wrote it.") from error


def target_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a table's type, with everything nullable."""
    return to_arrow_type(make_nullable(data_type))


def _conform(array: pa.Array, data_type: DataType, mode: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if _has_target_type(array.type, target_type(data_type), mode):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target_type(data_type))
    return (
        _conform_variant(array) if data_type == VARIANT else _conform_inside(array, data_type, mode)
    )


def _has_target_type(arrow_type: pa.DataType, target: pa.DataType, mode: str) -> bool:
    """Return whether no conversion is needed; nested names may differ under column mapping."""
    return bool(arrow_type == target) and (mode == "none" or not pa.types.is_nested(arrow_type))


def _conform_inside(array: pa.Array, data_type: DataType, mode: str) -> pa.Array:
    if pa.types.is_nested(array.type) != isinstance(data_type, StructType | ArrayType | MapType):
        msg = "one is nested, the other is not"
        raise TypeError(msg)
    match data_type:
        case StructType():
            return _conform_struct(array, data_type, mode)
        case ArrayType(element, _):
            return list_of(array, lambda values: _conform(values, element, mode), element)
        case MapType(key, value, _):
            return _conform_map(array, key, value, mode)
        case PrimitiveType() | DecimalType():
            return _conform_value(array, to_arrow_type(data_type))


def _conform_struct(array: pa.Array, struct: StructType, mode: str) -> pa.Array:
    fields = [array.type.field(i) for i in range(array.type.num_fields)]
    children = array.flatten()
    columns = []
    for column in struct:
        place = find_field(fields, column, mode, struct)
        if place is None:
            columns.append(pa.nulls(len(array), target_type(column.type)))
        else:
            columns.append(_conform(children[place], column.type, mode))
    return struct_of(array, columns, struct)


def struct_of(array: pa.Array, columns: list[pa.Array], struct: StructType) -> pa.Array:
    """Rebuild a struct array with other columns, those of `struct`."""
    if not columns:
        return pa.array(
            [{} if there else None for there in array.is_valid().to_pylist()], pa.struct([])
        )
    names = [pa.field(column.name, target_type(column.type)) for column in struct]
    return pa.StructArray.from_arrays(columns, fields=names, mask=array.is_null())


def list_of(
    array: pa.Array, convert: Callable[[pa.Array], pa.Array], element: DataType
) -> pa.Array:
    """Rebuild a list array with converted elements."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    kind = pa.list_(pa.field("element", target_type(element)))
    return pa.ListArray.from_arrays(
        offsets, convert(array.flatten()), type=kind, mask=array.is_null()
    )


def _conform_map(array: pa.Array, key: DataType, value: DataType, mode: str) -> pa.Array:
    return map_of(
        array,
        lambda keys: _conform(keys, key, mode),
        lambda items: _conform(items, value, mode),
    )


def map_of(
    array: pa.Array,
    convert_keys: Callable[[pa.Array], pa.Array],
    convert_items: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    """Rebuild a map array with converted keys and values."""
    offsets = array.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return pa.MapArray.from_arrays(
        pa.array(offsets - first, pa.int32()),
        convert_keys(array.keys.slice(first, count)),
        convert_items(array.items.slice(first, count)),
        mask=array.is_null(),
    )


def _conform_variant(array: pa.Array) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    if set(names) != {"metadata", "value"}:
        raise UnsupportedFeatureError(_A_TABLE, ["variantShredding"], "read")
    leaves = dict(zip(names, array.flatten(), strict=True))
    columns = [leaves["metadata"].cast(pa.binary()), leaves["value"].cast(pa.binary())]
    return pa.StructArray.from_arrays(columns, fields=list(VARIANT_STORAGE), mask=array.is_null())


def _conform_value(array: pa.Array, target: pa.DataType) -> pa.Array:
    if (
        pa.types.is_timestamp(array.type)
        and array.type.unit == "ns"
        and pa.types.is_timestamp(target)
    ):
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(target)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID)
    return int(text) if text is not None and text.lstrip(b"-").isdigit() else None
