"""Rows that are to disappear: their positions become deletion vectors on the executors.

Each scan task turns its positions into bitmaps, so that what is shuffled, by file, is small.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile
from engine.conflicts.row_counts import physical_rows
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vectors
from engine.snapshot.data_files import open_parquet
from engine.spark.columns import column
from engine.spark.reader import FILE, ROW
from engine.spark.session import default_parallelism
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store

_FILES_A_TASK = 16  # whose vectors it reads, and writes into one file
_BITMAPS = "file int, bitmap binary"
_REPORT = "file int, deleted long, total long, physical long, vector string"


@dataclass(frozen=True, slots=True)
class FileDeletion:
    """What is deleted from a file.

    `deleted` rows go now, `total` are gone afterwards, of `physical` rows. `vector` says which;
    None where every row is gone.
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
    """What an executor must know to merge positions into files' deletion vectors."""

    uri: str
    storage_options: dict[str, str]
    files: dict[int, AddFile]
    write_vectors: bool
    allowed_roots: tuple[str, ...] = ()
    prefix_length: int = 0


def delete_positions(
    positions: DataFrame, table: TableFiles, files: Sequence[AddFile], *, write_vectors: bool = True
) -> list[FileDeletion]:
    """Deletion vectors that hold the positions beside what each file's vector holds already.

    Args:
        positions: the reader's FILE and ROW; a row may come more than once.
        table: where the files are.
        files: what FILE counts.
        write_vectors: false only counts, for tables without deletion vectors.
    """
    merge = vector_merge(table, files, write_vectors=write_vectors)
    partial = positions.select(column(FILE), column(ROW)).mapInArrow(gather_positions, _BITMAPS)
    cores = default_parallelism(positions.sparkSession)
    tasks = min(cores, 1 + len(files) // _FILES_A_TASK)
    merged = partial.repartition(tasks, column("file")).mapInArrow(merging_task(merge), _REPORT)
    rows = sorted(merged.toArrow().to_pylist(), key=lambda row: int(row["file"]))
    return [_deletion(merge, row) for row in rows]


def vector_merge(
    table: TableFiles, files: Sequence[AddFile], *, write_vectors: bool
) -> VectorMerge:
    """What merging positions of these files needs."""
    return VectorMerge(
        table.uri,
        dict(table.storage_options),
        dict(enumerate(files)),
        write_vectors,
        tuple(table.allowed_roots),
        table.properties.file_prefix_length,
    )


def merge_bitmaps(merge: VectorMerge, bitmaps: dict[int, BitMap64]) -> list[FileDeletion]:
    """Deletion vectors that hold positions found in this process, by the files' indexes."""
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
    """One task's positions as a bitmap for each file."""
    bitmaps: dict[int, BitMap64] = {}
    for batch in batches:
        files = batch.column(0).to_numpy(zero_copy_only=False)
        rows = batch.column(1).to_numpy(zero_copy_only=False)
        for index in np.unique(files):
            bitmap = bitmaps.setdefault(int(index), BitMap64())
            bitmap.update(BitMap64(rows[files == index].tolist()))
    for index, bitmap in bitmaps.items():
        bitmap.run_optimize()
        yield pa.RecordBatch.from_pydict(
            {
                "file": pa.array([index], pa.int32()),
                "bitmap": pa.array([bitmap.serialize()], pa.binary()),
            }
        )


def merging_task(
    merge: VectorMerge,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that turns bitmaps of files into vectors and says what became of each file."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bitmaps: dict[int, BitMap64] = {}
        for batch in batches:
            for index, payload in zip(
                batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True
            ):
                bitmap = bitmaps.setdefault(int(index), BitMap64())
                bitmap |= BitMap64.deserialize(payload)
                bitmaps[int(index)] = bitmap
        if bitmaps:
            yield _report(merge, bitmaps)

    return task


def _report(merge: VectorMerge, bitmaps: dict[int, BitMap64]) -> pa.RecordBatch:
    store = open_store(merge.uri, merge.storage_options)
    before: dict[int, int] = {}
    for index, bitmap in bitmaps.items():
        vector = merge.files[index].deletion_vector
        deleted = read_deletion_vector(store, vector, merge.allowed_roots) if vector else BitMap64()
        before[index] = len(deleted)
        bitmaps[index] = bitmap | deleted
    physical = {index: _physical_rows(merge, index) for index in bitmaps}
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


def _physical_rows(merge: VectorMerge, index: int) -> int:
    """From the statistics, or else from the file's footer."""
    add = merge.files[index]
    counted = physical_rows(add)
    if counted is not None:
        return counted
    store = open_store(merge.uri, merge.storage_options)
    with open_parquet(store, add.path, merge.allowed_roots) as parquet:
        return int(parquet.metadata.num_rows)
