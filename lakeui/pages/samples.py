"""Messages to try the page of pasted errors with, as each writer words them."""

from dataclasses import dataclass

_COMMIT = (
    'Conflicting commit: {"timestamp":1795141491000,"operation":"MERGE","operationParameters":'
    '{"predicate":"[\\"(t.item_id = s.item_id)\\"]"},"readVersion":2205,"isolationLevel":'
    '"WriteSerializable","isBlindAppend":false,"operationMetrics":{"numTargetRowsInserted":"18204"},'
    '"engineInfo":"Apache-Spark/3.5.3 Delta-Lake/3.2.1",'
    '"txnId":"5d0c4be1-77f2-4a0e-9a8d-30c2c1f5e6aa"}\n'
    "Refer to https://docs.delta.io/latest/concurrency-control.html for more details."
)
_ADDED = (
    "Files were added to partition [order_date=2026-11-19] by a concurrent update. Please try the "
    "operation again.\n"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A message by the writer it is of; `key` names it in the address."""

    key: str
    name: str
    text: str


SAMPLES = (
    Sample(
        "delta-spark",
        "delta-spark 2.x, 3.x",
        "26/11/20 02:25:03 ERROR MicroBatchExecution: Query items-upsert [id = 41b7, runId = 90c2] "
        f"terminated with error\nio.delta.exceptions.ConcurrentAppendException: {_ADDED}{_COMMIT}",
    ),
    Sample(
        "delta-spark-4",
        "delta-spark 4.x",
        "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] "
        f"ConcurrentAppendException: {_ADDED}{_COMMIT}",
    ),
    Sample(
        "databricks",
        "Databricks 14.3",
        "com.databricks.sql.transaction.tahoe.ConcurrentDeleteReadException: "
        "[DELTA_CONCURRENT_DELETE_READ.ROW_LEVEL_CHANGES] Transaction conflict detected, a "
        "concurrent UPDATE deleted data from table main.sales.orders (committed at version 4797) "
        "that this transaction read. The concurrent operation modified the same rows that this "
        "transaction read. Please retry the operation. SQLSTATE: 2D521",
    ),
    Sample(
        "delta-rs",
        "delta-rs 1.x",
        "_internal.CommitFailedError: Failed to commit transaction: Commit failed: a concurrent "
        "transactions added new data.\nHelp: This transaction's query must be rerun to include the "
        "new data. Also, if you don't care to require this check to pass in the future, the "
        "isolation level can be set to Snapshot Isolation.",
    ),
    Sample(
        "pyspark",
        "wrapped by PySpark",
        "Traceback (most recent call last):\n"
        '  File "/opt/jobs/upsert.py", line 41, in <module>\n    .execute()\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o204.execute.\n"
        ": io.delta.exceptions.ConcurrentDeleteDeleteException: This transaction attempted to delete "
        "one or more files that were deleted (for example part-00017-1f0c8a52.snappy.parquet in "
        "partition [order_date=2026-11-19]) by a concurrent update. Please try the operation again.\n"
        f"{_COMMIT}\n"
        "\tat org.apache.spark.sql.delta.ConflictChecker.checkForDeletedFilesAgainstCurrentTxn"
        "DeletedFiles(ConflictChecker.scala:398)",
    ),
)


def sample_text(key: str) -> str:
    """The text of a sample; empty where there is none of that key."""
    return next((each.text for each in SAMPLES if each.key == key), "")
