"""Streaming writes of the data source `lake`: every batch exactly once, even if Spark repeats it.

A batch's commit carries a `txn` action: the id of the query (kept in its checkpoint) and the number
of the batch. A batch already in the log is not written again. Two queries with one checkpoint
conflict in that action: the later one is aborted with `ConcurrentTransactionException`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from engine.actions.files import tombstone
from engine.actions.table import SetTransaction
from engine.errors import RequestError
from engine.reports.transactions import report_transaction
from engine.spark.data_source_options import LakeOptions, SourcePlace
from engine.spark.data_source_writer import open_table
from engine.spark.staged_files import (
    Staging,
    TaskFiles,
    check_same_table,
    discard,
    discard_write,
    has_failed_tasks,
    may_have_landed,
    stages_of,
)
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


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
        """How rows are written, by the table as it is when this is first requested.

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
