"""Signs of a conflict in text: class names, error classes and sentences of each writer.

Formats: delta-spark 0.x to 3.x ("… by a concurrent update … Conflicting commit: {…}"), delta-spark
4.x and Databricks ("[CLASS.SUB_CLASS] Transaction conflict detected …"), delta-rs ("Commit failed:
a concurrent transaction …"), Delta Kernel, and this engine ("Version 7 (DELETE) of t …").
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """The engine that wrote the message, by its wording."""

    DELTA_SPARK = "delta-spark"
    DATABRICKS = "Databricks"
    DELTA_RS = "delta-rs"
    DELTA_KERNEL = "Delta Kernel"
    TRINO = "Trino"
    THIS_ENGINE = "this engine"
    UNKNOWN = "unknown"


FILES_ALONE = frozenset({Source.DELTA_SPARK, Source.DELTA_RS, Source.DELTA_KERNEL, Source.TRINO})
"""Engines that always compare files."""


@dataclass(frozen=True, slots=True)
class ConflictSigns:
    """A conflict by its class name and error class, with its distinctive sentences."""

    exception: str
    code: str
    can_retry: bool
    meaning: str
    sentences: tuple[str, ...]


KINDS: tuple[ConflictSigns, ...] = (
    ConflictSigns(
        "ConcurrentAppendException",
        "DELTA_CONCURRENT_APPEND",
        True,
        "Another commit added files that this write should have read.",
        (
            r"files were added to .{1,400}? by a concurrent update",
            r"a concurrent .{1,80}? added data to",
            r"a concurrent transactions? added new data",
            r"(?:conflicting concurrent writes found\. )?data files added in the modified table by",
            r"version \d+ \([^)]{1,60}\).{0,400}? should have seen",
        ),
    ),
    ConflictSigns(
        "ConcurrentDeleteReadException",
        "DELTA_CONCURRENT_DELETE_READ",
        True,
        "Another commit deleted or rewrote files that this write had read.",
        (
            r"attempted to read one or more files that were deleted",
            r"a concurrent .{1,80}? deleted data .{1,400}? that this transaction read",
            r"a concurrent transaction deleted data this operation read",
            r"version \d+ \([^)]{1,60}\).{0,300}? had read",
        ),
    ),
    ConflictSigns(
        "ConcurrentDeleteDeleteException",
        "DELTA_CONCURRENT_DELETE_DELETE",
        True,
        "Another commit deleted or rewrote the same files that this write deletes.",
        (
            r"attempted to delete one or more files that were deleted",
            r"a concurrent .{1,80}? deleted data .{1,400}? that this transaction attempted to delete",
            r"a concurrent transaction deleted the same data your transaction deletes",
            r"version \d+ \([^)]{1,60}\).{0,300}? removes too",
        ),
    ),
    ConflictSigns(
        "MetadataChangedException",
        "DELTA_METADATA_CHANGED",
        True,
        "Another commit changed the table's metadata: schema, properties or partitioning.",
        (
            r"metadata of the delta table has been changed by a concurrent update",
            r"metadata changed since last commit",
            r"(?:conflicting concurrent writes found\. )?metadata changed by concurrent write",
            r"version \d+ \([^)]{1,60}\).{0,300}? changed the metadata of the table after this",
        ),
    ),
    ConflictSigns(
        "ConcurrentTransactionException",
        "DELTA_CONCURRENT_TRANSACTION",
        False,
        "Two writers used one application id. The usual cause is two streaming queries that "
        "share a checkpoint.",
        (
            r"multiple streaming queries are using the same checkpoint",
            r"concurrent transaction failed",
            r"version \d+ \([^)]{1,60}\).{0,300}? committed for the application .{1,200}? whose progress this",
        ),
    ),
    ConflictSigns(
        "ProtocolChangedException",
        "DELTA_PROTOCOL_CHANGED",
        True,
        "Another commit changed the table's protocol, or created or replaced the table first.",
        (
            r"protocol version of the delta table has been changed by a concurrent update",
            r"protocol changed since last commit",
            r"(?:conflicting concurrent writes found\. )?protocol changed by concurrent write",
            r"version \d+ \([^)]{1,60}\).{0,300}? changed the protocol of the table after this",
            r"version \d+ \([^)]{1,60}\).{0,300}? (?:created|replaced) the table while this",
        ),
    ),
    ConflictSigns(
        "ConcurrentWriteException",
        "DELTA_CONCURRENT_WRITE",
        True,
        "Another write committed after this write had read the table.",
        (
            r"a concurrent transaction has written new data since the current transaction",
            r"transaction has encountered a conflict and can ?not be committed",
            r"conflicting concurrent writes found",
            r"conflict detected while writing transaction log",
            r"target file already exists: .{0,900}?_delta_log/\d{20}\.json",
        ),
    ),
    ConflictSigns(
        "",
        "DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
        True,
        "The commit found the next version taken too many times.",
        (
            r"commit has failed as it has been tried \d+ times",
            r"failed to commit transaction: \d{1,9}\b",
            r"delta transaction failed, version \d{1,18} already exists",
            r"\bVersionAlreadyExists\(\d{1,18}\)",
            r"tried committing existing table version:? \d{1,18}",
        ),
    ),
)

SOURCE_SIGNS: tuple[tuple[Source, re.Pattern[str]], ...] = (
    (
        Source.DATABRICKS,
        re.compile(r"com\.databricks\.|databricks\.com/|Transaction conflict detected"),
    ),
    (Source.DELTA_KERNEL, re.compile(r"io\.delta\.kernel\.")),
    (
        Source.TRINO,
        re.compile(r"io\.trino\.|TrinoException|[Cc]onflicting concurrent writes found"),
    ),
    (
        Source.DELTA_SPARK,
        re.compile(r"io\.delta\.exceptions|org\.apache\.spark\.sql\.delta|delta\.exceptions"),
    ),
    (
        Source.DELTA_RS,
        re.compile(
            r"CommitFailedError|Commit failed: a concurrent|since last commit"
            r"|Concurrent transaction failed\.|Failed to commit transaction: \d|LockClientError"
            r"|Delta transaction failed, version|committing existing table version"
        ),
    ),
    (Source.THIS_ENGINE, re.compile(r"Nothing was written\.|Version \d+ \([^)]{1,60}\) of ")),
    (
        Source.DELTA_SPARK,
        re.compile(r"by a concurrent update|Conflicting commit: \{|docs\.delta\.io"),
    ),
)

OTHER_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "an aborted multi-statement transaction of Databricks. Roll it back, and run all of "
        "its statements again. An earlier message describes the conflict",
        re.compile(r"MULTI_STATEMENT_TRANSACTION_ROLLBACK_REQUIRED_AFTER_ABORT"),
    ),
    (
        "a conflict of Apache Iceberg, not of Delta",
        re.compile(r"org\.apache\.iceberg\.exceptions\.|Cannot commit: Base metadata location"),
    ),
    (
        "a conflict of Apache Hudi, not of Delta",
        re.compile(r"HoodieWriteConflictException|org\.apache\.hudi\.exception"),
    ),
    (
        "two instances of one streaming query with one checkpoint, which Spark itself stopped",
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs detected for"),
    ),
    (
        "a delta-rs writer with an old snapshot. Load the table again before the write",
        re.compile(r"Generic DeltaTable error: Version mismatch"),
    ),
    ("the SQLSTATE 2D521 of a transaction that was ended", re.compile(r"\b2D521\b")),
    ("a Delta error class, {0}, that is not a conflict", re.compile(r"\b(DELTA_[A-Z_]{3,60})\b")),
    (
        "a Java exception, {0}",
        re.compile(r"\b((?:[a-z]\w{0,30}\.){2,8}[A-Z]\w{0,60}(?:Exception|Error))\b"),
    ),
    ("a Python traceback", re.compile(r"Traceback \(most recent call last\)")),
    ("a commit's information", re.compile(r'"operation"\s*:\s*"')),
    ("a Spark log", re.compile(r"\b(?:INFO|WARN|ERROR) [A-Z]\w{2,40}:")),
)
