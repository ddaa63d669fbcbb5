"""Batches of a Parquet file limited by decoded bytes as well as by rows.

A footer records the size of pages, not of values: forty rows may all refer to one dictionary entry
of 50 MB. Values of variable length are therefore read as dictionary references, measured, and only
then decoded, a few rows at a time. A page or a comparison reads a limited amount at one time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import RequestError


class ReadLimitError(RequestError, code="LAKE_READ_LIMIT", sqlstate="54000"):
    """A comparison would read more rows than allowed at one time."""

    def __init__(self, first: int, last: int, most_bytes: int) -> None:
        super().__init__(
            f"Versions {first} and {last} differ in more than {most_bytes / 2**20:,.0f} MiB, "
            "which is the limit of one comparison.",
            "Compare versions that are closer together, or add a condition on partition or "
            "key columns.",
            field="where",
        )
        self.most_bytes = most_bytes


class CellLimitError(RequestError, code="LAKE_CELL_LIMIT", sqlstate="54000"):
    """Rows of a data file are larger than may be read at one time for a page."""

    def __init__(self, size_bytes: int, most_bytes: int, column_path: str = "") -> None:
        """Describe a row of `size_bytes`, with its largest column if given."""
        where = f"its column {column_path[:200]}" if column_path else "its rows"
        super().__init__(
            f"A data file has {size_bytes / 2**20:,.0f} MiB in {where} that must be read at once. "
            f"A page reads at most {most_bytes / 2**20:,.0f} MiB at a time.",
            "Select other columns, or read the rows with a program.",
            field="columns",
        )


PERSON_BATCH_BYTES = 64 * 2**20
"""Decoded bytes of one batch of a read for a person."""
_CHUNK_BATCHES = 4
_MAX_RATIO = 100


def dictionary_paths(parquet: pq.ParquetFile) -> list[str]:
    """Return the leaves of a file to read as references to a dictionary."""
    columns = map(parquet.schema.column, range(len(parquet.schema)))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def iter_bounded(
    parquet: pq.ParquetFile, names: list[str], batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some columns in batches limited by rows and decoded bytes.

    `parquet` reads its `dictionary_paths` as dictionaries. `names` are top-level columns.

    Raises:
        CellLimitError: a row, or the data to decompress before it, exceeds `batch_bytes`.
    """
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        if not group.num_rows:
            continue
        average = _check_group(group, set(names), batch_bytes)
        rows_at_once = max(1, min(batch_rows, batch_bytes // max(average, 1)))
        for batch in parquet.iter_batches(rows_at_once, row_groups=[number], columns=names):
            yield from _split(batch, batch_bytes)


def _check_group(group: Any, names: set[str], batch_bytes: int) -> int:  # noqa: ANN401 - untyped
    """Return the average bytes of a row by the footer, before anything is decompressed."""
    total = 0
    for place in range(group.num_columns):
        chunk = group.column(place)
        if chunk.path_in_schema.split(".")[0] not in names and chunk.path_in_schema not in names:
            continue
        size = chunk.total_uncompressed_size
        unfolds = size > _MAX_RATIO * max(chunk.total_compressed_size, 1)
        if size > _CHUNK_BATCHES * batch_bytes and unfolds:
            raise CellLimitError(size, batch_bytes, chunk.path_in_schema)
        total += size
    average = int(total // group.num_rows)
    if average > batch_bytes:
        raise CellLimitError(average, batch_bytes)
    return average


def _split(batch: pa.RecordBatch, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch decoded, in as many parts as its bytes need."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        sizes += _row_sizes(column)
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + batch_bytes, side="right"))
        if stop == start:
            largest = max(batch.columns, key=lambda column: int(_row_sizes(column)[start]))
            name = batch.schema.names[batch.columns.index(largest)]
            raise CellLimitError(int(sizes[start]), batch_bytes, name)
        yield _decode(batch.slice(start, stop - start))
        start = stop


def _decode(batch: pa.RecordBatch) -> pa.RecordBatch:
    fields = [field.with_type(_plain_type(field.type)) for field in batch.schema]
    arrays = [
        _decode_array(column, field.type)
        for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries, at any depth."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind


def _decode_array(array: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - an array of any type
    """Return the values of an array as `kind`, decoding dictionaries at every level."""
    if array.type == kind:
        return array
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_struct(kind):
        inner = [
            _decode_array(array.field(place), kind.field(place).type)
            for place in range(kind.num_fields)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask)
    return array.cast(kind)


def _row_sizes(array: Any) -> np.ndarray:  # noqa: ANN401 - an array of any type
    """Return the decoded size of each row of an array, in bytes."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        sizes = _row_sizes(array.storage)
    elif pa.types.is_dictionary(kind):
        sizes = _measure_referenced(array)
    elif pa.types.is_struct(kind):
        sizes = _widths(len(array), 1)
        for values in array.flatten():
            sizes = sizes + _row_sizes(values)
    elif pa.types.is_nested(kind):
        sizes = _list_sizes(array)
    elif pa.types.is_binary(kind) or pa.types.is_string(kind) or _is_large(kind):
        lengths = pc.fill_null(pc.binary_length(array), 0)
        sizes = np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64) + 4
    else:
        is_small = pa.types.is_boolean(kind) or pa.types.is_null(kind)
        sizes = _widths(len(array), 1 if is_small else kind.bit_width // 8)
    return sizes


def _widths(count: int, width: int) -> np.ndarray:
    return np.full(count, width, dtype=np.int64)


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _measure_referenced(array: Any) -> np.ndarray:  # noqa: ANN401 - a dictionary array
    lengths = _row_sizes(array.dictionary)
    if not len(lengths):
        return _widths(len(array), 4)
    places = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths[places], 4)


def _list_sizes(array: Any) -> np.ndarray:  # noqa: ANN401 - an array of lists or maps
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    sums = np.zeros(last - first + 1, dtype=np.int64)
    np.cumsum(_row_sizes(_entries(array).slice(first, last - first)), out=sums[1:])
    ends = sums[offsets - first]
    return np.asarray(ends[1:] - ends[:-1] + 4)


def _entries(array: Any) -> Any:  # noqa: ANN401 - an array of any type
    """Return the values of lists; of maps, their keys and items as structs."""
    if not pa.types.is_map(array.type):
        return array.values
    return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
