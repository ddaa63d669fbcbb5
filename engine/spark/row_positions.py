"""Positions of rows found by Spark: rows to delete, and rows of a winning commit.

Each scan task turns the positions of rows to delete into bitmaps, so that the shuffle, by file, is
small; the executors merge them into deletion vectors. A winning commit's few rows come from the
driver, if Arrow cannot test them: the last resort of conflict resolution.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddFile, DeletionVectorDescriptor
from engine.conflicts.decide.row_access import physical_rows
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vectors
from engine.errors import CannotEvaluateError
from engine.expressions.tree import Expression
from engine.snapshot.data_files import check_within, count_rows
from engine.spark.collection import collect_rows
from engine.spark.columns import column, is_true, to_column
from engine.spark.scan.reader import FILE, ROW
from engine.spark.session import default_parallelism
from engine.spark.table_files import TableFiles
from engine.storage.base import Store
from engine.storage.uri import open_store

_FILES_A_TASK = 16  # their vectors go into one file
_MOST_ROWS_HERE = 64 * 1024 * 1024
"""A bit a row, at most: 8 MiB of bitmaps."""
MOST_COLUMNS_ALONG = 20
"""New images are made as rows are found, unless the table has more columns: few are read first."""
MOST_TAKEN = 10_000
_MOST_TAKEN_BYTES = 1024 * 1024
"""Limit on the columns beside positions, for each task."""
_TAKEN = -1
"""In place of a file number: marks the columns beside the positions."""
_WITHIN_TASK = (1 << 33) - 1
_BITMAPS = "file int, bitmap binary"
_REPORT = "file int, deleted long, total long, physical long, vector string"

_PLACE = "__lake_place"


@dataclass(frozen=True, slots=True)
class FileDeletion:
    """Rows deleted from a file.

    `deleted` rows go now and `total` are gone afterwards, of the `physical` rows in the file's
    footer. `vector` holds the deleted rows; None if no row is left.
    """

    add: AddFile
    deleted: int
    total: int
    physical: int
    vector: DeletionVectorDescriptor | None

    @property
    def is_whole(self) -> bool:
        """Whether no live row is left."""
        return self.total >= self.physical


@dataclass(frozen=True)
class VectorMerge:
    """The inputs of an executor for merging positions into files' deletion vectors."""

    uri: str
    storage_options: dict[str, str]
    files: dict[int, AddFile]
    write_vectors: bool
    allowed_roots: tuple[str, ...] = ()
    prefix_length: int = 0


def delete_positions(
    positions: DataFrame, table: TableFiles, files: Sequence[AddFile], *, write_vectors: bool = True
) -> list[FileDeletion]:
    """Merge positions into the deletion vectors of their files.

    Args:
        positions: the reader's FILE and ROW; a row may come more than once.
        table: the files' location.
        files: the files that FILE counts.
        write_vectors: false only counts, for tables without deletion vectors.
    """
    merge = vector_merge(table, files, write_vectors=write_vectors)
    partial = positions.select(column(FILE), column(ROW)).mapInArrow(gather_positions, _BITMAPS)
    report = collect_rows(partial) if is_one_task(files) else None
    if report is not None:
        return merge_bitmaps(merge, dict(sorted(_merge_bitmaps(report.to_batches()).items())))
    cores = default_parallelism(positions.sparkSession)
    tasks = min(cores, 1 + len(files) // _FILES_A_TASK)
    merged = partial.repartition(tasks, column("file")).mapInArrow(build_merge_task(merge), _REPORT)
    rows = sorted(merged.toArrow().to_pylist(), key=lambda row: int(row["file"]))
    return [_deletion(merge, row) for row in rows]


def delete_and_take(
    matches: DataFrame, table: TableFiles, files: Sequence[AddFile]
) -> tuple[list[FileDeletion], pa.Table | None]:
    """Delete positions in few files (`is_one_task`), as `delete_positions` does; take columns.

    `matches` has FILE, which counts `files`, ROW, and columns beside them.

    Returns:
        The deletions, and the columns beside, of every row; None if these are large.
    """
    merge = vector_merge(table, files, write_vectors=True)
    names = matches.columns  # a data and a partition column may share a name
    numbered = matches.toDF(*map(str, range(len(names))))
    file, row = (column(str(names.index(name))) for name in (FILE, ROW))
    beside = [str(place) for place, name in enumerate(names) if name not in {FILE, ROW}]
    taken = F.struct(*map(column, beside))
    place = F.monotonically_increasing_id().bitwiseAND(F.lit(_WITHIN_TASK))
    limited = F.when(place < MOST_TAKEN, taken)  # of many rows, few are sent
    rows = numbered.select(file, row, limited.alias("taken"))
    report = collect_rows(rows.mapInArrow(gather_and_take, _BITMAPS))
    if report is None:
        return delete_positions(matches, table, files), None
    is_payload = pc.equal(report.column("file"), _TAKEN)
    bitmaps = _merge_bitmaps(report.filter(pc.invert(is_payload)).to_batches())
    deletions = merge_bitmaps(merge, dict(sorted(bitmaps.items())))
    payloads = report.filter(is_payload).column("bitmap").to_pylist()
    if not payloads or None in payloads:
        return deletions, None
    return deletions, pa.concat_tables(pa.ipc.open_stream(part).read_all() for part in payloads)


def is_one_task(files: Sequence[AddFile]) -> bool:
    """Whether one task would merge the bitmaps, and they are small: then do it in this process."""
    counts = [physical_rows(add) for add in files]
    rows = sum(count for count in counts if count is not None)
    return len(files) < _FILES_A_TASK and None not in counts and rows <= _MOST_ROWS_HERE


def vector_merge(
    table: TableFiles, files: Sequence[AddFile], *, write_vectors: bool
) -> VectorMerge:
    """Return the inputs for merging positions of these files."""
    return VectorMerge(
        table.uri,
        dict(table.storage_options),
        dict(enumerate(files)),
        write_vectors,
        tuple(table.allowed_roots),
        table.properties.file_prefix_length,
    )


def merge_bitmaps(merge: VectorMerge, bitmaps: dict[int, BitMap64]) -> list[FileDeletion]:
    """Merge positions found in this process into deletion vectors, by the files' indexes."""
    if not bitmaps:
        return []
    return [_deletion(merge, row) for row in _report(merge, bitmaps).to_pylist()]


def _deletion(merge: VectorMerge, row: dict[str, object]) -> FileDeletion:
    text = row["vector"]
    vector = msgspec.json.decode(str(text), type=DeletionVectorDescriptor) if text else None
    index, deleted, total, physical = (
        int(str(row[k])) for k in ("file", "deleted", "total", "physical")
    )
    return FileDeletion(merge.files[index], deleted, total, physical, vector)


def gather_positions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gather one task's positions into a bitmap for each file."""
    bitmaps: dict[int, BitMap64] = {}
    for batch in batches:
        _gather(bitmaps, batch)
    yield from _bitmap_batches(bitmaps)


def gather_and_take(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gather one task's positions as `gather_positions` does, and the columns beside if small."""
    bitmaps: dict[int, BitMap64] = {}
    taken: list[pa.RecordBatch] | None = []
    for batch in batches:
        _gather(bitmaps, batch)
        beside = batch.column(2)
        if taken is not None and not beside.null_count:
            taken.append(pa.RecordBatch.from_struct_array(beside))
        else:
            taken = None
        if taken is not None and sum(part.nbytes for part in taken) > _MOST_TAKEN_BYTES:
            taken = None
    yield from _bitmap_batches(bitmaps)
    if bitmaps:
        yield _batch(_TAKEN, _serialize_batches(taken) if taken else None)


def _gather(bitmaps: dict[int, BitMap64], batch: pa.RecordBatch) -> None:
    files = batch.column(0).to_numpy(zero_copy_only=False)
    rows = batch.column(1).to_numpy(zero_copy_only=False)
    for index in np.unique(files):
        bitmap = bitmaps.setdefault(int(index), BitMap64())
        bitmap.update(BitMap64(rows[files == index].tolist()))


def _bitmap_batches(bitmaps: dict[int, BitMap64]) -> Iterator[pa.RecordBatch]:
    for index, bitmap in bitmaps.items():
        bitmap.run_optimize()
        yield _batch(index, bitmap.serialize())


def _batch(index: int, payload: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"file": pa.array([index], pa.int32()), "bitmap": pa.array([payload], pa.binary())}
    )


def _serialize_batches(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def build_merge_task(
    merge: VectorMerge,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task that merges bitmaps into vectors and reports each file."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bitmaps = _merge_bitmaps(batches)
        if bitmaps:
            yield _report(merge, bitmaps)

    return task


def _merge_bitmaps(batches: Iterable[pa.RecordBatch]) -> dict[int, BitMap64]:
    """Merge the bitmaps of each file."""
    bitmaps: dict[int, BitMap64] = {}
    for batch in batches:
        for index, payload in zip(
            batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True
        ):
            bitmap = bitmaps.setdefault(int(index), BitMap64())
            bitmap |= BitMap64.deserialize(payload)
            bitmaps[int(index)] = bitmap
    return bitmaps


def _report(merge: VectorMerge, bitmaps: dict[int, BitMap64]) -> pa.RecordBatch:
    store = open_store(merge.uri, merge.storage_options)
    before: dict[int, int] = {}
    for index, bitmap in bitmaps.items():
        vector = merge.files[index].deletion_vector
        deleted = read_deletion_vector(store, vector, merge.allowed_roots) if vector else BitMap64()
        before[index] = len(deleted)
        bitmaps[index] = bitmap | deleted
    physical = {i: _count_rows(merge, store, i, b) for i, b in bitmaps.items()}
    partial = {i: b for i, b in bitmaps.items() if len(b) < physical[i] and len(b) > before[i]}
    written = partial if merge.write_vectors else {}
    vectors = write_deletion_vectors(store, written, prefix_length=merge.prefix_length)
    texts = [msgspec.json.encode(vectors[i]).decode() if i in vectors else None for i in bitmaps]
    totals = [len(bitmap) for bitmap in bitmaps.values()]
    return pa.RecordBatch.from_pydict(
        {
            "file": pa.array(list(bitmaps), pa.int32()),
            "deleted": pa.array([len(b) - before[i] for i, b in bitmaps.items()], pa.int64()),
            "total": pa.array(totals, pa.int64()),
            "physical": pa.array([physical[i] for i in bitmaps], pa.int64()),
            "vector": pa.array(texts, pa.string()),
        }
    )


def _count_rows(merge: VectorMerge, store: Store, index: int, deleted: BitMap64) -> int:
    """Return the rows of a file, from its footer.

    Raises:
        DeletionVectorError: rows are deleted that the file does not have.
    """
    path = merge.files[index].path
    counted = count_rows(store, path, merge.allowed_roots)
    check_within(deleted, counted, path)
    return counted


def condition_tester(spark: SparkSession) -> Callable[[Expression, pa.Table], pa.Array]:
    """Return a tester: the rows of a table that satisfy a condition over its columns."""

    def test(condition: Expression, rows: pa.Table) -> pa.Array:
        return _mask(
            lambda: _create_numbered_frame(spark, rows).filter(is_true(condition)), rows.num_rows
        )

    return test


def join_matcher(
    spark: SparkSession, source: DataFrame, on: Expression, reached: Sequence[Expression] = ()
) -> Callable[[pa.Table], pa.Array]:
    """Return a matcher of a MERGE's target rows that join a source row or satisfy `reached`."""

    def match(rows: pa.Table) -> pa.Array:
        def join_source() -> DataFrame:
            return target().join(source.alias("source"), to_column(on), "left_semi")

        def target() -> DataFrame:
            return _create_numbered_frame(spark, rows).alias("target")

        mask = _mask(join_source, rows.num_rows)
        for condition in reached:
            mask = pc.or_(mask, _mask(_filter_lazily(target, condition), rows.num_rows))
        return mask

    return match


def _filter_lazily(rows: Callable[[], DataFrame], condition: Expression) -> Callable[[], DataFrame]:
    return lambda: rows().filter(is_true(condition))


def _create_numbered_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    places = pa.array(np.arange(rows.num_rows), pa.int64())
    return spark.createDataFrame(rows.append_column(_PLACE, places))


def _mask(rows: Callable[[], DataFrame], count: int) -> pa.Array:
    """Return the mask of the selected rows.

    Raises:
        CannotEvaluateError: Spark cannot evaluate it either: the two sides conflict.
    """
    mask = np.zeros(count, dtype=bool)
    try:
        places = rows().select(column(_PLACE)).toArrow().column(0).to_numpy()
    except (PySparkException, Py4JError) as error:
        msg = f"Spark could not test the winning commit's rows: {type(error).__name__}."
        raise CannotEvaluateError(msg) from error
    mask[places] = True
    return pa.array(mask)
