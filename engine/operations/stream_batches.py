"""Batches of a stream into a table, each committed once: for the stream command and for foreachBatch."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from engine.actions.table import SetTransaction
from engine.errors import RequestError
from engine.operations.execution import Execution
from engine.operations.result import OperationResult
from engine.operations.write_rows import WriteTerms, add_columns, assign_identity, write_rows
from engine.spark.columns import from_spark_schema
from engine.spark.sources import SourceRows
from engine.spark.write.data_source_writer import QUERY_ID
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction

OPERATION = "STREAMING UPDATE"


def append_batch(
    execution: Execution,
    txn: OptimisticTransaction,
    mark: SetTransaction,
    rows: SourceRows | None,
    parameters: Mapping[str, Any],
    *,
    merge_schema: bool = False,
) -> OperationResult:
    """Write rows and commit them together with the application's mark.

    Raises:
        ConcurrentTransactionException: another writer moved the mark since the transaction began.
        SchemaMismatchError, InvariantViolationError: the table does not take the rows.
    """
    snapshot = execution.snapshot_of(txn)
    metrics: dict[str, int | str] = {"numAddedFiles": 0, "numRemovedFiles": 0}
    if rows is not None:
        terms = WriteTerms.from_snapshot(snapshot)
        if merge_schema:
            terms = add_columns(terms, rows.schema)
        rows, terms = assign_identity(execution, terms, rows)
        written = write_rows(execution, terms, rows)
        txn.stage(*terms.changes_from(snapshot), *written.adds)
        metrics["numAddedFiles"] = len(written.adds)
        metrics["numOutputRows"] = written.rows
        metrics["numOutputBytes"] = written.size_bytes
    txn.stage(mark)
    return execution.commit(txn, OPERATION, parameters, metrics)


def batch_writer(
    table: DeltaTable, *, query_id: str = "", merge_schema: bool = False
) -> Callable[[DataFrame, int], None]:
    """Return a `foreachBatch` function for appending each batch of a stream to a table once.

    Unlike the sink `lake`, Spark checks and completes the rows: identity columns are numbered,
    values are cast, and all table rules known to the append command apply.

    `query_id` owns the progress; by default it is the id in the query's checkpoint. `merge_schema`
    adds columns of the rows missing from the table.
    """

    def write_batch(frame: DataFrame, batch_id: int) -> None:
        context = frame.sparkSession.sparkContext
        app_id = query_id or context.getLocalProperty(QUERY_ID) or ""
        if not app_id:
            msg = "The id of the streaming query is not known."
            raise RequestError(msg, "Give it as query_id.", field="query_id")
        execution = Execution(table, frame.sparkSession)
        with execution.clean_up_on_failure():
            txn = execution.begin()
            last = txn.read_application(app_id)
            if last is not None and last >= batch_id:
                return
            now_ms = table.clock.now_ms()
            mark = SetTransaction(app_id=app_id, version=batch_id, last_updated=now_ms)
            parameters = {"outputMode": "Append", "queryId": app_id, "epochId": str(batch_id)}
            rows = SourceRows(frame, from_spark_schema(frame.schema))
            append_batch(execution, txn, mark, rows, parameters, merge_schema=merge_schema)

    return write_batch
