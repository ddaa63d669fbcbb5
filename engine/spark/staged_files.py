"""Files staged by tasks of a data source's write: written on executors, committed elsewhere.

Each step runs in a process of its own: they exchange their state by pickle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import WriterCommitMessage

from engine.actions.codec import decode, encode
from engine.actions.files import AddFile
from engine.clock import SystemClock
from engine.errors import (
    CommitOutcomeUnknownError,
    EngineError,
    StorageError,
    StorageOutcomeUnknownError,
    TableReplacedError,
)
from engine.protocol.features import check_writable
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import from_spark_schema
from engine.spark.data_source_reader import refuse_variants
from engine.spark.file_writer import FileTarget, write_files
from engine.spark.incoming_rows import IncomingRows
from engine.spark.table_files import TableFiles
from engine.spark.writer import file_target
from engine.storage.base import Store
from engine.storage.uri import resolve_log_path

_SORTED_BYTES = 256 * 1024 * 1024


@dataclass
class TaskFiles(WriterCommitMessage):
    """The files of one task.

    Attributes:
        actions: one line of the log for each file.
        rows: how many rows they hold.
        base_version: the table's version whose rules applied.
        table_id: the table's own.
        query_id: of the streaming query, "" for a batch write.
        write_id: in the name of every file of the write.
    """

    actions: tuple[str, ...] = ()
    rows: int = 0
    base_version: int = -1
    query_id: str = ""
    write_id: str = ""
    table_id: str = ""

    @property
    def adds(self) -> Iterator[AddFile]:
        """The files."""
        return (add for line in self.actions if isinstance(add := decode(line), AddFile))


@dataclass(frozen=True)
class Staging:
    """How tasks write rows of a DataFrame into files of a table."""

    rows: IncomingRows
    target: FileTarget
    base_version: int
    storage_options: Mapping[str, str] = field(default_factory=dict)
    table_id: str = ""

    @classmethod
    def plan(
        cls,
        snapshot: Snapshot,
        data: spark_types.StructType,
        storage_options: Mapping[str, str],
    ) -> "Staging":
        """Plan a write under the rules of a version.

        Raises:
            UnsupportedFeatureError: the table, or a rule of it, cannot be written in this way.
            SchemaMismatchError: the data does not fit.
        """
        check_writable(snapshot.table_uri, snapshot.protocol, snapshot.schema)
        refuse_variants(snapshot.table_uri, data, "write")
        table = TableFiles(
            uri=snapshot.table_uri,
            schema=snapshot.schema,
            partition_columns=tuple(snapshot.partition_columns),
            properties=snapshot.properties,
            storage_options=dict(storage_options),
            clustering=snapshot.clustering_paths,
        )
        rows = IncomingRows.plan(
            snapshot.table_uri,
            snapshot.metadata,
            snapshot.schema,
            from_spark_schema(data),
            SystemClock().now_ms(),
        )
        options, own_id = dict(storage_options), snapshot.metadata.id
        return cls(rows, file_target(table), snapshot.version, options, own_id)

    def write(self, batches: Iterator[pa.RecordBatch], store: Store) -> TaskFiles:
        """Write the rows of a task; on failure none of its files is left.

        Raises:
            InvariantViolationError: a row breaks a rule of the table.
        """
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        adds: list[AddFile] = []
        count = 0
        try:
            for piece in self._pieces(batches):
                for add, rows in write_files(piece, self.target, task):
                    adds.append(add)
                    count += rows
        except BaseException:
            remove_files(store, adds)
            raise
        lines = tuple(map(encode, adds))
        own_ids = {"write_id": self.target.write_id, "table_id": self.table_id}
        return TaskFiles(lines, count, self.base_version, **own_ids)

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Iterate over the task's rows; sort those of a partitioned table, as memory allows."""
        if not self.target.partitions:
            yield (
                part for batch in batches for part in self._convert_to_file_rows(batch).to_batches()
            )
            return
        pending: list[pa.Table] = []
        for batch in batches:
            pending.append(self._convert_to_file_rows(batch))
            if sum(pending_batch.nbytes for pending_batch in pending) >= _SORTED_BYTES:
                yield iter(_sort_by_partition(pending, len(self.target.partitions)))
                pending = []
        if pending:
            yield iter(_sort_by_partition(pending, len(self.target.partitions)))

    def _convert_to_file_rows(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows in the files' form, then the partition columns."""
        rows = self.rows.apply(batch)
        partitions = [partition.name for partition in self.target.partitions]
        data = [name for name in rows.column_names if name not in partitions]
        columns = [
            _rename_inner_fields(rows.column(name), target.type)
            for name, target in zip(data, self.target.arrow_schema, strict=True)
        ]
        columns += [rows.column(name) for name in partitions]
        kinds = [column.type for column in columns]
        names = [f"c{i}" for i in range(len(columns))]
        schema = pa.schema([pa.field(n, k) for n, k in zip(names, kinds, strict=True)])
        return pa.Table.from_arrays(columns, schema=schema)


def stages_of(messages: Sequence[object]) -> list[TaskFiles]:
    """Return the messages of tasks with files."""
    return [message for message in messages if isinstance(message, TaskFiles)]


def check_same_table(snapshot: Snapshot, stages: Sequence[TaskFiles]) -> None:
    """Check that files go into their own table.

    Raises:
        TableReplacedError: another table has replaced it.
    """
    for stage in stages:
        if stage.table_id not in {"", snapshot.metadata.id}:
            raise TableReplacedError(snapshot.table_uri, stage.base_version)


def has_failed_tasks(messages: Sequence[object]) -> bool:
    """Whether tasks failed: then no commit was begun, and the files of the others may be removed.

    Spark aborts after a failed commit too. That commit has removed its files if it knew that it did
    not land; otherwise they must stay.
    """
    return any(message is None for message in messages)


def discard(store: Store, stages: Sequence[TaskFiles]) -> None:
    """Remove the files of tasks."""
    remove_files(store, [add for stage in stages for add in stage.adds])


def discard_write(store: Store, write_ids: Iterable[str]) -> None:
    """Remove every file of a failed write, also of killed tasks, which reported none."""
    ids = [given for given in write_ids if given]
    with suppress(StorageError):
        for file in list(store.list_all()) if ids else ():
            if any(write_id in file.name for write_id in ids):
                store.delete(file.path)


def may_have_landed(error: Exception) -> bool:
    """Whether a failed commit may still be in the log."""
    unknown = (CommitOutcomeUnknownError, StorageOutcomeUnknownError)
    return isinstance(error, unknown) or not isinstance(error, EngineError)


def remove_files(store: Store, adds: Sequence[AddFile]) -> None:
    """Remove files that no log names; VACUUM finds leftovers of a failing store."""
    with suppress(StorageError):
        for add in adds:
            store.delete(resolve_log_path(store.root, add.path).path)


def _rename_inner_fields(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Rename the fields inside a column to a type's physical names, without a copy."""
    if column.type == kind:
        return column
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], type=kind)


def _sort_by_partition(tables: Sequence[pa.Table], partitions: int) -> list[pa.RecordBatch]:
    """Sort rows so that those of one partition are adjacent."""
    rows = pa.concat_tables(tables).combine_chunks()
    keys = []
    for column in rows.columns[-partitions:]:
        combined = column.combine_chunks()
        array = combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
        keys.append(pc.dictionary_encode(array, null_encoding="encode").indices.to_numpy())
    order = np.lexsort(keys[::-1])
    batches: list[pa.RecordBatch] = rows.take(pa.array(order)).combine_chunks().to_batches()
    return batches
