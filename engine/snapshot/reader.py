"""Reading data files into Arrow, without Spark: deletion vectors, partition values, mapping applied."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.files import AddCDCFile, AddFile
from engine.deletion_vectors.files import read_deletion_vector
from engine.errors import DataFileError, DeletionVectorError, FileMissingError
from engine.schema.arrow import to_arrow_type
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import epoch_micros, parse_partition_value
from engine.schema.types import StructField, StructType
from engine.snapshot.conform import conform_column, find_field, target_type
from engine.storage.base import Store
from engine.storage.uri import open_store, resolve_log_path

ROW_INDEX = "__row_index"
_REMEDY = "Restore the file from a backup, or restore the table to an earlier version."


class TableShape(Protocol):
    """What reading a file needs to know of its table; a snapshot is one."""

    @property
    def store(self) -> Store:
        """The table's files."""
        ...

    @property
    def schema(self) -> StructType:
        """Logical columns, partition columns among them."""
        ...

    @property
    def partition_columns(self) -> Sequence[str]:
        """Logical names."""
        ...

    @property
    def mapping_mode(self) -> str:
        """Column mapping: none, name or id."""
        ...

    @property
    def allowed_roots(self) -> Sequence[str]:
        """Places outside the table that may be read."""
        ...


def read_file(
    table: TableShape,
    add: AddFile,
    columns: Sequence[str] | None = None,
    *,
    with_positions: bool = False,
) -> pa.Table:
    """The live rows of one file in the table's schema.

    Args:
        table: the snapshot the file belongs to.
        add: the file.
        columns: logical names of the columns wanted; all by default.
        with_positions: add `__row_index`, the physical position of each row in the file.

    Raises:
        DataFileError: the file or its deletion vector is missing or damaged.
        PathOutsideRootError: one of them lies outside the table and the allowed roots.
    """
    fields = [each for each in table.schema if columns is None or each.name in columns]
    rows = read_physical(table, add, StructType(tuple(fields)))
    if with_positions:
        rows = rows.append_column(ROW_INDEX, pa.array(np.arange(rows.num_rows), pa.int64()))
    if add.deletion_vector is None:
        return rows
    deleted = read_deletion_vector(table.store, add.deletion_vector, table.allowed_roots)
    return rows.filter(live_mask(rows.num_rows, deleted, add.path))


def read_physical(table: TableShape, file: AddFile | AddCDCFile, schema: StructType) -> pa.Table:
    """Every physical row of a file, deleted ones too, as the columns of `schema`."""
    stored = [each for each in schema if each.name not in table.partition_columns]
    with _open_parquet(table, file.path) as parquet:
        found = _read_stored(parquet, stored, table.mapping_mode)
        count = parquet.metadata.num_rows
    columns = []
    for each in schema:
        if each.name in found:
            columns.append(found[each.name])
        else:
            columns.append(partition_column(each, file.partition_values, table.mapping_mode, count))
    fields = [pa.field(each.name, target_type(each.type)) for each in schema]
    if not fields:
        return pa.table({"_": pa.nulls(count)}).select([])
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def count_rows(table: TableShape, path_in_log: str) -> int:
    """The physical rows of a file, from its footer."""
    with _open_parquet(table, path_in_log) as parquet:
        return int(parquet.metadata.num_rows)


def live_mask(count: int, deleted: BitMap64, path: str) -> pa.Array:
    """Which of a file's rows a deletion vector leaves.

    Raises:
        DeletionVectorError: it deletes rows that the file does not have.
    """
    if deleted and deleted.max() >= count:
        msg = f"The deletion vector of {path} deletes row {deleted.max()}, but the file has {count} rows."
        raise DeletionVectorError(msg, _REMEDY)
    mask = np.ones(count, dtype=bool)
    mask[np.asarray(deleted.to_array(), dtype=np.int64)] = False
    return pa.array(mask)


def partition_column(
    each: StructField, partition_values: dict[str, str | None], mode: str, count: int
) -> pa.Array:
    """A partition column of `count` rows.

    Raises:
        MalformedLogError: its text is no value of its type.
    """
    value = parse_partition_value(partition_values.get(physical_name(each, mode)), each.type)
    kind = target_type(each.type)
    if value is None:
        return pa.nulls(count, kind)
    return pa.repeat(partition_scalar(value, to_arrow_type(each.type)), count)


def partition_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:  # noqa: ANN401 - any value
    """The Arrow scalar of a parsed partition value."""
    if isinstance(value, datetime):
        return pa.scalar(epoch_micros(value), pa.int64()).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(value, kind)


def _read_stored(
    parquet: pq.ParquetFile, stored: list[StructField], mode: str
) -> dict[str, pa.ChunkedArray]:
    """The wanted columns that are not partition columns, by logical name."""
    fields = list(parquet.schema_arrow)
    places = {each.name: find_field(fields, each, mode) for each in stored}
    names = sorted({fields[place].name for place in places.values() if place is not None})
    rows = parquet.read(columns=names) if names else None
    count = parquet.metadata.num_rows
    found: dict[str, pa.ChunkedArray] = {}
    for each in stored:
        place = places[each.name]
        if place is None or rows is None:
            found[each.name] = pa.chunked_array([pa.nulls(count, target_type(each.type))])
        else:
            column = rows.column(rows.column_names.index(fields[place].name))
            found[each.name] = conform_column(column, each, mode)
    return found


@contextmanager
def _open_parquet(table: TableShape, path_in_log: str) -> Iterator[pq.ParquetFile]:
    place = resolve_log_path(table.store.root, path_in_log, table.allowed_roots)
    store = table.store if place.inside else open_store(place.root)
    try:
        with store.open_input(place.path) as source:
            yield pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=True)
    except FileMissingError as error:
        msg = f"The data file {place.path} of {table.store.root} is missing."
        raise DataFileError(msg, _REMEDY) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"The data file {place.path} of {table.store.root} cannot be read: {error}."
        raise DataFileError(msg, _REMEDY) from error
