"""Writes of the data source `lake`: batches and streams, one commit each.

Tasks stage files on the executors and the driver commits them. Each step runs in a process of its
own: they exchange their state by pickle.

A batch of a stream is committed once, even if Spark repeats it. Its commit carries a `txn` action:
the id of the query (kept in its checkpoint) and the number of the batch. A batch already in the log
is not written again. Two queries with one checkpoint conflict in that action: the later one is
aborted with `ConcurrentTransactionException`.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from engine.actions.codec import decode, encode
from engine.actions.files import AddFile, tombstone
from engine.actions.table import SetTransaction
from engine.clock import SystemClock
from engine.errors import (
    CommitOutcomeUnknownError,
    EngineError,
    RequestError,
    StorageError,
    StorageOutcomeUnknownError,
    TableReplacedError,
)
from engine.protocol.features import check_writable
from engine.reports.transactions import report_transaction
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import from_spark_schema
from engine.spark.data_source_options import LakeOptions, SourcePlace
from engine.spark.data_source_reader import refuse_variants
from engine.spark.file_writer import FileTarget, write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.incoming_rows import IncomingRows
from engine.spark.write.writer import file_target, sort_by_partition
from engine.storage.base import Store
from engine.storage.uri import open_store, resolve_log_path
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction

_SORTED_BYTES = 256 * 1024 * 1024

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


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
    """The parameters by which tasks write rows of a DataFrame into files of a table."""

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
                yield self._sort(pending)
                pending = []
        if pending:
            yield self._sort(pending)

    def _sort(self, pending: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        rows = pa.concat_tables(pending)
        names = rows.column_names[-len(self.target.partitions) :]
        return iter(sort_by_partition(rows, names).combine_chunks().to_batches())

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


class LakeWriter(DataSourceArrowWriter):
    """A batch write. It reads the version that was the latest when Spark planned it.

    Spark does not report the origin of the rows. If they came from the table itself, the option
    `readVersion` names their version: later commits are then checked.
    """

    def __init__(
        self,
        options: LakeOptions,
        place: SourcePlace,
        schema: spark_types.StructType,
        overwrite: bool,
    ) -> None:
        """Run every check that needs no rows.

        Raises:
            EngineError: there is no table, or it does not accept such rows.
        """
        self._options, self._place, self._overwrite = options, place, overwrite
        self._txn_id = str(uuid.uuid4())
        snapshot = open_table(options, place).snapshot(options.read_version)
        self._staging = Staging.plan(snapshot, schema, options.storage_options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write a task's rows, on an executor."""
        store = open_store(self._options.uri, self._options.storage_options)
        return self._staging.write(iterator, store)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of the tasks, on the driver.

        Raises:
            ConflictError: a concurrent commit won; the files are removed.
        """
        stages = stages_of(messages)
        table = open_table(self._options, self._place)
        try:
            self._commit(table, stages)
        except Exception as error:
            if not may_have_landed(error):
                discard(table.store, stages)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of tasks after another task failed."""
        if has_failed_tasks(messages):
            store = open_store(self._options.uri, self._options.storage_options)
            discard_write(store, [self._staging.target.write_id])

    def _commit(self, table: DeltaTable, stages: Sequence[TaskFiles]) -> None:
        snapshot = table.snapshot(self._staging.base_version)
        check_same_table(snapshot, stages)
        with report_transaction(
            None, table.uri, lambda: ("WRITE", "", ""), is_last=True
        ) as observer:
            txn = OptimisticTransaction(
                table, snapshot, txn_id=self._txn_id, observer=observer, clock=table.clock
            )
            self._commit_staged(txn, snapshot, stages)

    def _commit_staged(
        self, txn: OptimisticTransaction, snapshot: Snapshot, stages: Sequence[TaskFiles]
    ) -> None:
        adds = [add for stage in stages for add in stage.adds]
        metrics = {
            "numFiles": len(adds),
            "numOutputBytes": sum(add.size for add in adds),
            "numOutputRows": sum(stage.rows for stage in stages),
        }
        if self._overwrite or self._options.read_version is not None:
            txn.read_whole_table()
        if self._overwrite:
            removed = snapshot.add_files()
            txn.stage(*map(tombstone, removed))
            metrics["numRemovedFiles"] = len(removed)
            metrics["numRemovedBytes"] = sum(add.size for add in removed)
        txn.stage(*adds)
        mode = "Overwrite" if self._overwrite else "Append"
        parameters = {"mode": mode, "partitionBy": list(snapshot.metadata.partition_columns)}
        txn.commit("WRITE", parameters, metrics)


def open_table(options: LakeOptions, place: SourcePlace) -> DeltaTable:
    """Open the table named by the options."""
    return DeltaTable.open(options.uri, options.storage_options, allowed_roots=place.allowed_roots)


@dataclass(frozen=True)
class _Plan:
    """A planned batch: how rows are written, and the batches already in the log."""

    staging: Staging
    committed: Mapping[str, int]


class LakeSink(DataSourceStreamArrowWriter):
    """One batch of a streaming query, from its plan to its commit.

    Spark creates one sink to plan the batch and sends it to the tasks, which fixes the version. It
    creates another one for the commit and passes it the tasks' messages with that version.
    """

    def __init__(
        self,
        options: LakeOptions,
        place: SourcePlace,
        schema: spark_types.StructType,
        overwrite: bool,
    ) -> None:
        """Take the options of a batch without reading the table."""
        self._options, self._place, self._overwrite = options, place, overwrite
        self._schema = schema
        self._planned: _Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks; plan the batch now if it is not planned."""
        return {**self.__dict__, "_planned": self.plan}

    @property
    def plan(self) -> _Plan:
        """The parameters of the write, for the table as it is when this is first requested.

        Raises:
            EngineError: there is no table, or it does not take such rows.
        """
        if self._planned is None:
            snapshot = open_table(self._options, self._place).snapshot()
            staging = Staging.plan(snapshot, self._schema, self._options.storage_options)
            versions = {
                app: transaction.version for app, transaction in snapshot.set_transactions.items()
            }
            self._planned = _Plan(staging, versions)
        return self._planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write a task's rows, on an executor, unless the log has the batch."""
        query_id, batch_id = self._options.query_id or _local(QUERY_ID), _local(BATCH_ID)
        plan = self.plan
        if batch_id.isdigit() and plan.committed.get(query_id, -1) >= int(batch_id):
            return TaskFiles(base_version=plan.staging.base_version, query_id=query_id)
        store = open_store(self._options.uri, self._options.storage_options)
        staged = plan.staging.write(iterator, store)
        staged.query_id = query_id
        return staged

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the batch, on the driver, unless the log has it.

        Raises:
            ConcurrentTransactionException: another query committed on the same checkpoint.
            ConflictError: another writer won; restarting the query repeats the batch.
        """
        stages = stages_of(messages)
        if not stages:
            return
        table = open_table(self._options, self._place)
        try:
            commit_batch(table, stages, batchId, replace_all=self._overwrite)
        except Exception as error:
            if not may_have_landed(error):
                discard(table.store, stages)
            raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's names
        """Remove the files of tasks after another task failed."""
        if has_failed_tasks(messages):
            store = open_store(self._options.uri, self._options.storage_options)
            discard_write(store, {stage.write_id for stage in stages_of(messages)})


def commit_batch(
    table: DeltaTable, stages: Sequence[TaskFiles], batch_id: int, *, replace_all: bool
) -> int | None:
    """Commit the files of a batch's tasks; return the version, None if there was nothing to commit.

    Raises:
        RequestError: the id of the query is unknown.
        ConflictError: another commit won since the batch began.
    """
    query_id, base = stages[0].query_id, min(staged.base_version for staged in stages)
    if not query_id:
        msg = "The id of the streaming query is not known."
        raise RequestError(msg, "Give it as the option queryId.", field="queryId")
    snapshot = table.snapshot(base)
    check_same_table(snapshot, stages)
    with report_transaction(
        None, table.uri, lambda: ("STREAMING UPDATE", "", ""), is_last=True
    ) as observer:
        txn = OptimisticTransaction(table, snapshot, observer=observer, clock=table.clock)
        last = txn.read_application(query_id)
        if last is not None and last >= batch_id:
            discard(table.store, stages)
            return None
        adds = [add for stage in stages for add in stage.adds]
        removed = []
        if replace_all:
            txn.read_whole_table()
            removed = snapshot.add_files()
        if not adds and not removed:
            return None
        now_ms = table.clock.now_ms()
        txn.stage(SetTransaction(app_id=query_id, version=batch_id, last_updated=now_ms))
        txn.stage(*map(tombstone, removed), *adds)
        parameters = {
            "outputMode": "Complete" if replace_all else "Append",
            "queryId": query_id,
            "epochId": str(batch_id),
        }
        metrics = {
            "numAddedFiles": len(adds),
            "numRemovedFiles": len(removed),
            "numOutputRows": sum(staged.rows for staged in stages),
            "numOutputBytes": sum(add.size for add in adds),
        }
        return txn.commit("STREAMING UPDATE", parameters, metrics)


def _local(name: str) -> str:
    """Return a property that Spark passes from the query's thread to its tasks."""
    context = TaskContext.get()
    return (context.getLocalProperty(name) if context else None) or ""
