"""Messages to try the page of pasted errors with, as each writer words them."""

import json
from dataclasses import dataclass

from lakeui.catalog.access import Person
from lakeui.catalog.models import Commit
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict

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


_AGAIN = "Please try the operation again."
_SENTENCES = {  # of delta-spark
    "ConcurrentAppendException": f"Files were added to {{where}} by a concurrent update. {_AGAIN}",
    "ConcurrentDeleteReadException": "This transaction attempted to read one or more files that were"
    f" deleted by a concurrent update. {_AGAIN}",
    "ConcurrentDeleteDeleteException": "This transaction attempted to delete one or more files that"
    f" were deleted by a concurrent update. {_AGAIN}",
    "MetadataChangedException": "The metadata of the Delta table has been changed by a concurrent"
    f" update. {_AGAIN}",
}
HERE = "here"
_LOOKED_AT = 5


@dataclass(frozen=True, slots=True)
class SampleMessage:
    """A message by the writer it is of; `key` names it in the address."""

    key: str
    name: str
    text: str


SAMPLES = (
    SampleMessage(HERE, "the latest of this lake", ""),
    SampleMessage(
        "delta-spark",
        "delta-spark 2.x, 3.x",
        "26/11/20 02:25:03 ERROR MicroBatchExecution: Query items-upsert [id = 41b7, runId = 90c2] "
        f"terminated with error\nio.delta.exceptions.ConcurrentAppendException: {_ADDED}{_COMMIT}",
    ),
    SampleMessage(
        "delta-spark-4",
        "delta-spark 4.x",
        "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] "
        f"ConcurrentAppendException: {_ADDED}{_COMMIT}",
    ),
    SampleMessage(
        "databricks",
        "Databricks 14.3",
        "com.databricks.sql.transaction.tahoe.ConcurrentDeleteReadException: "
        "[DELTA_CONCURRENT_DELETE_READ.ROW_LEVEL_CHANGES] Transaction conflict detected, a "
        "concurrent UPDATE deleted data from table main.sales.orders (committed at version 4797) "
        "that this transaction read. The concurrent operation modified the same rows that this "
        "transaction read. Please retry the operation. SQLSTATE: 2D521",
    ),
    SampleMessage(
        "delta-rs",
        "delta-rs 1.x",
        "_internal.CommitFailedError: Failed to commit transaction: Commit failed: a concurrent "
        "transactions added new data.\nHelp: This transaction's query must be rerun to include the "
        "new data. Also, if you don't care to require this check to pass in the future, the "
        "isolation level can be set to Snapshot Isolation.",
    ),
    SampleMessage(
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


def sample_text(key: str, person: Person) -> str:
    """Return the text of a sample; empty if there is none of that key."""
    if key == HERE:
        return _latest_conflict_sample(person)
    return next((sample.text for sample in SAMPLES if sample.key == key), "")


def _latest_conflict_sample(person: Person) -> str:
    """Return the latest recorded conflict in delta-spark's wording; empty if there is none."""
    aborted = visible_conflicts(person).filter(kind=Conflict.Kind.ABORTED, exception__in=_SENTENCES)
    for conflict in aborted.exclude(winning_version=None).order_by("-occurred_at", "-pk")[
        :_LOOKED_AT
    ]:
        commits = Commit.objects.filter(
            table=conflict.table_id, version=conflict.winning_version or 0
        )
        commit = commits.exclude(txn_id="").defer("raw").first()
        if commit is not None and commit.committed_at is not None:
            return _render_sample(conflict, commit)
    return ""


def _render_sample(conflict: Conflict, commit: Commit) -> str:
    where = (
        f"partition [{conflict.partitions[0]}]" if conflict.partitions else "the root of the table"
    )
    sentence = _SENTENCES[conflict.exception].format(where=where)
    info = {
        "timestamp": round(commit.committed_at.timestamp() * 1000) if commit.committed_at else None,
        "operation": commit.operation,
        "operationParameters": {"predicate": json.dumps([commit.predicate])}
        if commit.predicate
        else {},
        "readVersion": commit.read_version,
        "isolationLevel": commit.isolation_level or None,
        "isBlindAppend": commit.is_blind_append,
        "operationMetrics": commit.operation_metrics,
        "engineInfo": commit.engine_info,
        "txnId": commit.txn_id,
    }
    told = json.dumps({k: v for k, v in info.items() if v is not None}, separators=(",", ":"))
    return f"io.delta.exceptions.{conflict.exception}: {sentence}\nConflicting commit: {told}"
