"""Several files into one, row order kept, as Arrow on the executors.

This is about three times faster than Spark's rows, and the only way to keep each source's rows
together so that they can be traced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark import TaskContext
from pyspark.sql import SparkSession

from engine.actions.codec import decode, encode
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile
from engine.deletion_vectors.files import read_deletion_vector
from engine.snapshot.conform import conform_column, find_field
from engine.snapshot.data_files import check_within, open_parquet
from engine.snapshot.legacy_calendar import LegacyTimes, legacy_times
from engine.spark.file_writer import FileTarget, OpenFile
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import add_columns, file_target
from engine.storage.base import Store
from engine.storage.uri import open_store

_REPORT = "bin int, action string, source_rows array<long>, rows long"
_BATCH_ROWS = 128 * 1024


@dataclass(frozen=True)
class CompactedBin:
    """A compacted bin: its new file (None if no row was live) and each source's `CompactionInfo`.

    `rows` is the number of rows written.
    """

    sources: tuple[AddFile, ...]
    target: AddFile | None
    infos: tuple[CompactionInfo | None, ...]
    rows: int


@dataclass(frozen=True)
class CompactionJob:
    """The inputs of an executor for compacting bins."""

    target: FileTarget
    bins: tuple[tuple[AddFile, ...], ...]
    row_columns: tuple[str | None, str | None] = (None, None)
    allowed_roots: tuple[str, ...] = ()
    mapping_mode: str = "none"


def compact(
    spark: SparkSession,
    table: TableFiles,
    bins: Sequence[Sequence[AddFile]],
    *,
    keep_row_ids: bool = False,
) -> list[CompactedBin]:
    """Write each bin of files, all of one partition, as one new file.

    Args:
        spark: the session.
        table: location and shape of the files.
        bins: files to join, in the order of their rows.
        keep_row_ids: write row ids and row commit versions into the table's materialized columns.
    """
    job = CompactionJob(
        _target(table, keep_row_ids=keep_row_ids),
        tuple(tuple(bin_) for bin_ in bins),
        allowed_roots=tuple(table.allowed_roots),
        mapping_mode=table.mapping_mode,
    )
    if keep_row_ids:
        job = replace(job, row_columns=(table.row_id_column, table.row_commit_version_column))
    numbers = spark.range(0, len(bins), 1, len(bins)).toDF("bin")
    report = numbers.mapInArrow(_build_task(job), _REPORT).toArrow().to_pylist()
    return [_build_outcome(bins[row["bin"]], row) for row in report]


def _build_outcome(sources: Sequence[AddFile], report: Mapping[str, Any]) -> CompactedBin:
    action = decode(report["action"]) if report["action"] else None
    if not isinstance(action, AddFile):
        return CompactedBin(tuple(sources), None, tuple(None for _ in sources), report["rows"])
    infos: list[CompactionInfo] = []
    offset = 0
    for source, count in zip(sources, report["source_rows"], strict=True):
        info = CompactionInfo(
            target=action.path,
            offset=offset,
            row_count=count,
            deletion_vector=source.deletion_vector,
        )
        infos.append(info)
        offset += info.live_count
    return CompactedBin(tuple(sources), action, tuple(infos), report["rows"])


def _target(table: TableFiles, *, keep_row_ids: bool) -> FileTarget:
    target = replace(file_target(table), data_change=False)
    return add_columns(target, table.row_fields) if keep_row_ids else target


def _build_task(
    job: CompactionJob,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield compact_bin(job, int(number))

    return task


def compact_bin(job: CompactionJob, number: int) -> pa.RecordBatch:
    """Compact one bin on an executor; return its number, the file's action, sources' rows."""
    sources = job.bins[number]
    values = sources[0].partition_values
    partition = tuple(values.get(field.physical_name) or None for field in job.target.partitions)
    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else 0
    name = f"part-{number:05d}-{job.target.write_id}-{attempt}.c000.snappy.parquet"
    store = open_store(job.target.table_uri, job.target.storage_options)
    out, rows = OpenFile(job.target, partition, name), []
    try:
        for add in sources:
            counted = 0
            for batch, seen in _iter_live(store, job, add):
                counted = seen
                if batch.num_rows:
                    out.write(batch)
            rows.append(counted)
        line = encode(out.finish()) if out.rows else None
    finally:
        if not out.is_finished:
            out.abandon()
    return pa.RecordBatch.from_pydict(
        {
            "bin": pa.array([number], pa.int32()),
            "action": pa.array([line], pa.string()),
            "source_rows": pa.array([rows], pa.list_(pa.int64())),
            "rows": pa.array([out.rows], pa.int64()),
        }
    )


def _iter_live(
    store: Store, job: CompactionJob, add: AddFile
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield live rows in order under the target's schema, with the physical rows seen so far.

    Raises:
        DeletionVectorError: the vector is missing or damaged, or deletes rows that the file lacks.
        DataFileError, PathOutsideRootError: as `open_parquet`.
    """
    vector, start = add.deletion_vector, 0
    gone = read_deletion_vector(store, vector, job.allowed_roots) if vector else BitMap64()
    deleted = np.fromiter(gone, dtype=np.uint64)
    with open_parquet(store, add.path, job.allowed_roots) as file:
        check_within(gone, file.metadata.num_rows, add.path)
        names, legacy = _source_names(job, file.schema_arrow), legacy_times(file.metadata)
        for batch in _batches(file, [name for name in names if name is not None]):
            positions = np.arange(start, start + batch.num_rows, dtype=np.uint64)
            start += batch.num_rows
            columns = _columns(batch, names, legacy, job)
            shaped = _fit_to_target(columns, job, add, positions)
            yield _remove_deleted(shaped, positions, deleted), start


def _batches(file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if columns:
        yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=columns)
        return
    left = file.metadata.num_rows
    while left > 0:
        rows = min(left, _BATCH_ROWS)
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])
        left -= rows


def _source_names(job: CompactionJob, file: pa.Schema) -> list[str | None]:
    """Return each target column's name in the file, found as every reader finds it."""
    fields, columns = list(file), job.target.schema
    modes = ("none" if column.name in job.row_columns else job.mapping_mode for column in columns)
    places = (
        find_field(fields, target, mode, columns)
        for target, mode in zip(columns, modes, strict=True)
    )
    return [None if place is None else fields[place].name for place in places]


def _columns(
    batch: pa.RecordBatch,
    names: Sequence[str | None],
    legacy: LegacyTimes | None,
    job: CompactionJob,
) -> list[pa.Array | None]:
    """Return the file's columns in the table's types, None for a missing column."""
    arrays: list[pa.Array | None] = []
    for field, name in zip(job.target.schema, names, strict=True):
        if name is None:
            arrays.append(None)
            continue
        column = pa.chunked_array([batch.column(name)])
        column = column if legacy is None else legacy.correct_column(name, column)
        arrays.append(conform_column(column, field, job.mapping_mode).chunk(0))
    return arrays


def _remove_deleted(
    batch: pa.RecordBatch, positions: npt.NDArray[np.uint64], deleted: npt.NDArray[np.uint64]
) -> pa.RecordBatch:
    if not len(deleted) or not len(positions):
        return batch
    low, high = np.searchsorted(deleted, [positions[0], positions[-1] + np.uint64(1)])
    if low == high:
        return batch
    alive = np.ones(len(positions), dtype=bool)
    alive[(deleted[low:high] - positions[0]).astype(np.int64)] = False
    return batch.filter(pa.array(alive))


def _fit_to_target(
    columns: Sequence[pa.Array | None],
    job: CompactionJob,
    add: AddFile,
    positions: npt.NDArray[np.uint64],
) -> pa.RecordBatch:
    """Return the columns in the target's types: nulls for absent ones, row ids filled in."""
    row_ids, versions = job.row_columns
    arrays = []
    for field, column in zip(job.target.arrow_schema, columns, strict=True):
        array = pa.nulls(len(positions), field.type) if column is None else column
        array = array if array.type == field.type else array.cast(field.type)
        if field.name == row_ids and add.base_row_id is not None:
            derived = pa.array(positions.astype(np.int64) + add.base_row_id)
            array = pc.coalesce(array, derived)
        elif field.name == versions and add.default_row_commit_version is not None:
            array = pc.fill_null(array, add.default_row_commit_version)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=job.target.arrow_schema)
