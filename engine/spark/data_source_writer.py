"""Batch writes of the data source `lake`: append and overwrite, one commit each."""

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from engine.actions.files import tombstone
from engine.reports.transactions import report_transaction
from engine.snapshot.snapshot import Snapshot
from engine.spark.data_source_options import LakeOptions, SourcePlace
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
