"""Arrow batches into Parquet files of the table, on an executor.

Files get their final, fresh names: nothing is renamed and nothing else is left behind. Each file is
synced before its action is reported, so that no commit names a file that could vanish.
"""

import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions.files import AddFile
from engine.clock import SystemClock
from engine.protocol.indexed_columns import IndexedColumns
from engine.schema.partition_values import data_directory, partition_scalar, partition_text_at
from engine.schema.types import DataType, StructType
from engine.spark.footer_statistics import FooterStatistics
from engine.storage.base import put_fresh, random_prefix
from engine.storage.local import LocalStore
from engine.storage.uri import local_path, open_store

PATH_SAFE = "/=-_.~!*'()@$&+,;"  # characters unencoded in paths of the log
_ROW_GROUP_BYTES = 64 * 1024 * 1024
_ROW_GROUP_ROWS = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition column: its name in the log (physical), its name in the data, its type and id."""

    physical_name: str
    name: str
    type: DataType
    field_id: int | None = None


@dataclass(frozen=True)
class FileTarget:
    """The inputs of an executor for writing files of a table.

    Attributes:
        table_uri: the table's location; `storage_options` open its store.
        schema: the files' schema under physical names; `arrow_schema` its Arrow form.
        described: the columns with statistics, if the files hold others too.
        partitions: partition columns, outermost first.
        directory: under the table, "" for data files.
        prefix: the start of file names: `part` or `cdc`.
        target_size_bytes: approximate size at which a file is closed.
        max_rows: number of rows at which a file is closed, unless 0.
        has_partition_columns: partition columns stand in the files too, behind the others.
        is_synced_later: the commit syncs the files that it names, as one of this process does.
        random_prefix_length: unless 0, files lie in directories of this many random characters, and
            not in those of their partitions.
    """

    table_uri: str
    schema: StructType
    arrow_schema: pa.Schema
    partitions: tuple[PartitionField, ...] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    prefix: str = "part"
    write_id: str = ""
    target_size_bytes: int = 128 * 1024 * 1024
    max_rows: int = 0
    indexed: IndexedColumns = field(default_factory=IndexedColumns)
    data_change: bool = True
    tags: Mapping[str, str] | None = None
    described: StructType | None = None
    has_partition_columns: bool = False
    random_prefix_length: int = 0
    is_synced_later: bool = False


class OpenFile:
    """One Parquet file being written; batches are gathered into row groups."""

    def __init__(self, target: FileTarget, partition: tuple[str | None, ...], name: str) -> None:
        names = [partition_field.physical_name for partition_field in target.partitions]
        self._target, self._values = target, dict(zip(names, partition, strict=True))
        random_name = random_prefix(target.random_prefix_length)
        directory = random_name or data_directory(self._values, names)
        self.path = "/".join(part for part in (target.directory, directory, name) if part)
        self._local = local_path(target.table_uri)
        self._constants = _constants(target, partition) if target.has_partition_columns else []
        self._sink = self._open()
        schema = pa.schema([*target.arrow_schema, *(constant for constant, _ in self._constants)])
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="snappy", store_schema=False
        )
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._raw_bytes = 0
        self._with_nan: set[tuple[str, ...]] = set()
        self.rows = 0
        self.is_finished = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self.rows += batch.num_rows
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        limit = min(_ROW_GROUP_BYTES, 4 * self._target.target_size_bytes)
        if (
            self._pending_bytes >= limit
            or sum(b.num_rows for b in self._pending) >= _ROW_GROUP_ROWS
        ):
            self._flush()

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Add rows up to the limit; return the rest."""
        most = self._target.max_rows - self.rows if self._target.max_rows else rows.num_rows
        self.write(conform(rows.slice(0, most), self._target.arrow_schema))
        return rows.slice(most)

    @property
    def is_full(self) -> bool:
        """Whether it is about as large as the target wants, or has as many rows as it may."""
        if self.rows == self._target.max_rows:
            return True
        written = self._sink.tell()
        ratio = written / self._raw_bytes if self._raw_bytes else 0.5
        return bool(written + self._pending_bytes * ratio >= self._target.target_size_bytes)

    def finish(self) -> AddFile:
        """Close the file; its action, with statistics from its footer."""
        self._flush()
        self._writer.close()
        footer = pq.read_metadata(pa.BufferReader(self._tail())) if self._local is None else None
        size = self._store()
        if footer is None:
            footer = pq.read_metadata(Path(str(self._local)) / self.path)
        self.is_finished = True
        statistics = FooterStatistics(
            self._target.described or self._target.schema, self._target.indexed
        )
        return AddFile(
            path=quote(self.path, safe=PATH_SAFE),
            partition_values=self._values,
            size=size,
            modification_time=SystemClock().now_ms(),
            data_change=self._target.data_change,
            stats=statistics.to_json(footer, self._with_nan),
            tags=dict(self._target.tags) if self._target.tags else None,
        )

    def abandon(self) -> None:
        """Close and remove the file."""
        with suppress(OSError, pa.ArrowException):  # it is removed anyway
            self._writer.close()
        with suppress(OSError):  # its buffer may not fit the disk
            self._sink.close()
        if self._local is not None:
            (self._local / self.path).unlink(missing_ok=True)

    def _open(self) -> Any:  # noqa: ANN401 - a file or Arrow's buffer
        if self._local is None:
            return pa.BufferOutputStream()
        place = Path(LocalStore(self._local).locate(self.path))
        place.parent.mkdir(parents=True, exist_ok=True)
        return place.open("xb")

    def _tail(self) -> pa.Buffer:
        self._buffer: pa.Buffer = self._sink.getvalue()
        return self._buffer

    def _store(self) -> int:
        """Make the file durable, unless it is synced later; return its size in bytes."""
        if self._local is None:
            store = open_store(self._target.table_uri, self._target.storage_options)
            put_fresh(store, self.path, self._buffer.to_pybytes())
            return int(self._buffer.size)
        size: int = self._sink.tell()
        self._sink.flush()
        if not self._target.is_synced_later:
            os.fsync(self._sink.fileno())
        self._sink.close()
        return size

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, schema=self._target.arrow_schema)
        self._with_nan |= set(_iter_nan_columns(table))
        for constant, value in self._constants:
            table = table.append_column(constant, pa.repeat(value, table.num_rows))
        self._writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
        self._raw_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0


def write_files(
    batches: Iterable[pa.RecordBatch], target: FileTarget, task: int
) -> Iterator[tuple[AddFile, int]]:
    """Write batches of the target's data columns, then its partition columns, by position.

    Rows of one partition must be adjacent. Yield each file's action and row count once it is
    durable, or complete if it is synced later. On failure the open file is removed; the caller
    removes the yielded ones.
    """
    current: OpenFile | None = None
    partition: tuple[str | None, ...] | None = None
    unique, count = uuid.uuid4().hex[:8], 0
    try:
        for batch in batches:
            for values, left in _runs(batch, target.partitions):
                while left.num_rows:
                    if current is not None and (values != partition or current.is_full):
                        yield current.finish(), current.rows
                        current = None
                    if current is None:
                        name = f"{target.prefix}-{task:05d}-{target.write_id}-{unique}.c{count:03d}.snappy.parquet"
                        current, partition, count = (
                            OpenFile(target, values, name),
                            values,
                            count + 1,
                        )
                    left = current.take(left)
        if current is not None:
            yield current.finish(), current.rows
            current = None
    finally:
        if current is not None:
            current.abandon()


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the first columns of a batch under the schema's names and types."""
    arrays = [
        batch.column(i)
        if batch.column(i).type == target_field.type
        else batch.column(i).cast(target_field.type)
        for i, target_field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _constants(
    target: FileTarget, partition: tuple[str | None, ...]
) -> list[tuple[pa.Field, pa.Scalar]]:
    """Return the partition columns of one file, each with its one value."""
    fields = []
    for partition_field, text in zip(target.partitions, partition, strict=True):
        value = partition_scalar(text, partition_field.type)
        number = (
            {b"PARQUET:field_id": str(partition_field.field_id).encode()}
            if partition_field.field_id
            else None
        )
        fields.append((pa.field(partition_field.physical_name, value.type, metadata=number), value))
    return fields


def _runs(
    batch: pa.RecordBatch, partitions: tuple[PartitionField, ...]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Slices of adjacent rows with the same partition values, as the log's strings."""
    if not partitions or not batch.num_rows:
        if batch.num_rows:
            yield (), batch
        return
    columns = batch.columns[-len(partitions) :]
    edges = {0, batch.num_rows}
    for column in columns:
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy()
        edges.update((np.flatnonzero(np.diff(codes)) + 1).tolist())
    bounds = sorted(edges)
    for start, end in itertools.pairwise(bounds):
        values = tuple(
            partition_text_at(column, start, partition_field.type)
            for column, partition_field in zip(columns, partitions, strict=True)
        )
        yield values, batch.slice(start, end - start)


def _iter_nan_columns(table: pa.Table) -> Iterator[tuple[str, ...]]:
    """Iterate over leaves with a NaN: Parquet's bounds leave it out, Spark orders it last."""
    for name in table.column_names:
        yield from _nan_paths(table.column(name), (name,))


def _nan_paths(column: pa.ChunkedArray, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        yield path
    if pa.types.is_struct(column.type):
        for i, child in enumerate(column.type.fields):
            yield from _nan_paths(pc.struct_field(column, [i]), (*path, child.name))
