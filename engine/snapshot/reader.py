"""Reading data files into Arrow, without Spark: deletion vectors, partition values, mapping applied."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.files import AddCDCFile, AddFile
from engine.deletion_vectors.files import read_deletion_vector
from engine.schema.arrow import check_supported
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import partition_scalar, partition_text
from engine.schema.types import StructField, StructType
from engine.snapshot.bounded_rows import dictionary_paths, iter_bounded
from engine.snapshot.conform import conform_column, find_fields, target_type
from engine.snapshot.data_files import check_within, open_parquet
from engine.snapshot.legacy_calendar import LegacyTimes, legacy_times
from engine.storage.base import Store

ROW_INDEX = "__row_index"


class TableShape(Protocol):
    """The facts of a table needed to read its files, such as a snapshot."""

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
        """Column mapping: `none`, `name` or `id`."""
        ...

    @property
    def allowed_roots(self) -> Sequence[str]:
        """Readable locations outside the table."""
        ...


def read_file(
    table: TableShape,
    add: AddFile,
    columns: Sequence[str] | None = None,
    *,
    with_positions: bool = False,
) -> pa.Table:
    """Read the live rows of one file in the table's schema.

    `columns` are logical names, all by default. `with_positions` adds `__row_index`, the physical
    position of each row in the file.

    Raises:
        DataFileError: the file or its deletion vector is missing or damaged.
        PathOutsideRootError: one of them lies outside the table and the allowed roots.
    """
    (rows,) = iter_file(table, add, columns, with_positions=with_positions)
    return rows


def iter_file(
    table: TableShape,
    add: AddFile,
    columns: Sequence[str] | None = None,
    *,
    with_positions: bool = False,
    batch_rows: int | None = None,
    batch_bytes: int | None = None,
) -> Iterator[pa.Table]:
    """Yield the live rows of one file in batches of `batch_rows` physical rows, or in one piece.

    With `batch_bytes`, batches are also limited in decoded bytes.

    Raises:
        CellLimitError: a row exceeds `batch_bytes`.
    """
    schema = StructType(tuple(f for f in table.schema if columns is None or f.name in columns))
    deleted = BitMap64()
    if add.deletion_vector is not None:
        deleted = read_deletion_vector(table.store, add.deletion_vector, table.allowed_roots)
    start = 0
    for rows in iter_physical(table, add, schema, batch_rows, batch_bytes):
        stop = start + rows.num_rows
        live = rows
        if with_positions:
            live = rows.append_column(ROW_INDEX, pa.array(np.arange(start, stop), pa.int64()))
        yield live if not deleted else live.filter(live_between(deleted, start, stop))
        start = stop
    check_within(deleted, start, add.path)


def read_physical(table: TableShape, file: AddFile | AddCDCFile, schema: StructType) -> pa.Table:
    """Read every physical row of a file, deleted ones too, as the columns of `schema`."""
    (rows,) = iter_physical(table, file, schema)
    return rows


def iter_physical(
    table: TableShape,
    file: AddFile | AddCDCFile,
    schema: StructType,
    batch_rows: int | None = None,
    batch_bytes: int | None = None,
) -> Iterator[pa.Table]:
    """Yield the physical rows of a file in batches of `batch_rows` rows, or in one piece.

    Raises:
        UnsupportedTypeError: a column has a type only other engines support.
    """
    check_supported(schema)
    mode = table.mapping_mode
    stored = [column for column in schema if column.name not in table.partition_columns]
    with open_parquet(
        table.store,
        file.path,
        table.allowed_roots,
        pre_buffer=batch_bytes is None,
        find_dictionaries=None if batch_bytes is None else dictionary_paths,
    ) as parquet:
        fields = list(parquet.schema_arrow)
        places = find_fields(fields, stored, mode, table.schema)
        names = sorted({fields[place].name for place in places.values() if place is not None})
        legacy = legacy_times(parquet.metadata)
        for stored_rows, count in _iter_stored(parquet, names, batch_rows, batch_bytes):
            rows = (
                stored_rows
                if legacy is None or stored_rows is None
                else _correct_times(stored_rows, legacy)
            )
            at = {} if rows is None else {name: i for i, name in enumerate(rows.column_names)}
            columns = []
            for column in schema:
                if column.name in table.partition_columns:
                    columns.append(partition_column(column, file.partition_values, mode, count))
                    continue
                place = places[column.name]
                name = None if place is None else fields[place].name
                values = None if rows is None or name is None else rows.column(at[name])
                columns.append(_read_stored_column(values, column, mode, count))
            yield _build_table(schema, columns, count)


def live_between(deleted: BitMap64, start: int, stop: int) -> pa.Array:
    """Return a mask of the physical rows in [start, stop) a deletion vector leaves live."""
    between = BitMap64()
    between.add_range(start, stop)
    mask = np.ones(stop - start, dtype=bool)
    mask[np.asarray((deleted & between).to_array(), dtype=np.int64) - start] = False
    return pa.array(mask)


def partition_column(
    column: StructField, partition_values: dict[str, str | None], mode: str, count: int
) -> pa.Array:
    """Build a partition column of `count` rows.

    Raises:
        MalformedLogError: its text is not a value of its type.
    """
    value = partition_scalar(
        partition_text(partition_values, physical_name(column, mode)), column.type
    )
    return pa.repeat(value, count) if value.is_valid else pa.nulls(count, target_type(column.type))


def _iter_stored(
    parquet: pq.ParquetFile, names: list[str], batch_rows: int | None, batch_bytes: int | None
) -> Iterator[tuple[pa.Table | None, int]]:
    """Yield rows of the named columns with their number; no table if no column is requested."""
    total = parquet.metadata.num_rows
    if batch_rows is None:
        yield parquet.read(columns=names) if names else None, total
    elif not names:
        yield from ((None, min(batch_rows, total - at)) for at in range(0, total, batch_rows))
    else:
        batches = (
            parquet.iter_batches(batch_rows, columns=names)
            if batch_bytes is None
            else iter_bounded(parquet, names, batch_rows, batch_bytes)
        )
        for batch in batches:
            yield pa.Table.from_batches([batch]), batch.num_rows


def _correct_times(rows: pa.Table, legacy: LegacyTimes) -> pa.Table:
    columns = zip(rows.column_names, rows.columns, strict=True)
    corrected = [legacy.correct_column(name, column) for name, column in columns]
    return pa.Table.from_arrays(corrected, schema=rows.schema)


def _read_stored_column(
    values: pa.ChunkedArray | None, column: StructField, mode: str, count: int
) -> pa.ChunkedArray:
    if values is None:
        return pa.chunked_array([pa.nulls(count, target_type(column.type))])
    return conform_column(values, column, mode)


def _build_table(
    schema: StructType, columns: list[pa.ChunkedArray | pa.Array], count: int
) -> pa.Table:
    if not columns:
        return pa.table({"_": pa.nulls(count)}).select([])
    fields = [pa.field(column.name, target_type(column.type)) for column in schema]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
