"""The six conflict exceptions: their meaning, causes, sub-classes and remedies.

Pages, REST and docs/semantics.md show these words; a test keeps the three consistent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.conflict_facts import Subclass
from engine.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConflictError,
    MetadataChangedException,
    ProtocolChangedException,
)


@dataclass(frozen=True, slots=True)
class ExceptionGuide:
    """The documentation of one exception.

    `open_source` and `databricks` are its sub-classes documented by delta-spark and Databricks,
    `raised` those raised by this engine.
    """

    error: type[ConflictError]
    meaning: str
    causes: tuple[str, ...]
    actions: tuple[str, ...]
    open_source: tuple[Subclass, ...] = ()
    databricks: tuple[Subclass, ...] = ()
    raised: tuple[Subclass, ...] = ()

    @property
    def name(self) -> str:
        """The name of its class, as Delta has it."""
        return self.error.__name__

    @property
    def code(self) -> str:
        """Its error class, as Delta has it."""
        return self.error.code

    @property
    def sqlstate(self) -> str:
        """Its SQLSTATE."""
        return self.error.sqlstate


SUBCLASS_MEANINGS: Mapping[str, str] = {
    Subclass.WITHOUT_HINT: "The message does not say where the two writes overlapped.",
    Subclass.WITH_PARTITION_HINT: "The two writes overlapped in the partitions that the message lists.",
    Subclass.ROW_LEVEL_CHANGES: "The two writes concern the same rows.",
    Subclass.WHOLE_TABLE_READ: "This write read the whole table.",
    Subclass.EMPTY_READ_PREDICATES: "This write had no condition, so it read the whole table.",
    Subclass.ALLOTTED_TIME_EXCEEDED: "The rows could not be compared within the time limit.",
    Subclass.CHANGE_TYPE_COLUMN: (
        "A column named _change_type prevents row-level conflict resolution."
    ),
    Subclass.METADATA_CHANGE: "The winning commit changed the metadata too.",
    Subclass.PROTOCOL_CHANGE: "The winning commit changed the protocol too.",
    Subclass.PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE: (
        "The conflict could not be resolved at row level on a partitioned table."
    ),
    Subclass.PREDICATES_NEED_REWRITE: "The conditions could not be applied to single rows.",
    Subclass.WHOLE_TABLE_REPLACE: "The winning commit replaced the whole table.",
    Subclass.CONFLICTING_COMMIT: "The message names the winning commit.",
    Subclass.WRITE_TO_EMPTY_DIRECTORY: "Several writers wrote to a directory that had no table.",
}
_HINTS = (Subclass.WITHOUT_HINT, Subclass.WITH_PARTITION_HINT)
_OF_ADDED = (
    *_HINTS,
    Subclass.ROW_LEVEL_CHANGES,
    Subclass.WHOLE_TABLE_READ,
    Subclass.WHOLE_TABLE_REPLACE,
    Subclass.ALLOTTED_TIME_EXCEEDED,
    Subclass.PREDICATES_NEED_REWRITE,
    Subclass.PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE,
    Subclass.CHANGE_TYPE_COLUMN,
    Subclass.METADATA_CHANGE,
    Subclass.PROTOCOL_CHANGE,
)
_OF_DELETED = (*_OF_ADDED, Subclass.EMPTY_READ_PREDICATES)
_RAISED = (
    *_HINTS,
    Subclass.ROW_LEVEL_CHANGES,
    Subclass.WHOLE_TABLE_READ,
    Subclass.ALLOTTED_TIME_EXCEEDED,
)

GUIDES: tuple[ExceptionGuide, ...] = (
    ExceptionGuide(
        ConcurrentAppendException,
        "Another commit added data that this write should have read.",
        (
            "Two of UPDATE, DELETE and MERGE on the same partition or, in a table without "
            "partitions, anywhere in the table: each rewrites the changed rows",
            "At Serializable, an INSERT that may add rows that match this write's condition",
            "A blind append, if a later commit may have read its rows",
        ),
        (
            "Run it again: it then reads the new data.",
            "Select the partitions in the condition with literal values. In a MERGE, put "
            "them into ON too.",
            "If the table has no partitions, enable deletion vectors, so that conflicts are "
            "decided at row level.",
            "If the winning commit is a blind append, the isolation level is the cause: "
            "blind appends conflict at Serializable, but not at WriteSerializable.",
        ),
        _HINTS,
        _OF_ADDED,
        _RAISED,
    ),
    ExceptionGuide(
        ConcurrentDeleteReadException,
        "Another commit deleted or rewrote a file that this write had read.",
        (
            "UPDATE, DELETE or MERGE of the same files or rows (two DELETEs only if the "
            "conflict is decided at file level)",
            "OPTIMIZE that reorders rows (ZORDER BY, or a clustered table), or OPTIMIZE on a "
            "table without deletion vectors",
            "A write that reads the whole table while another write changes any part of it",
        ),
        (
            "Run it again: it then reads the latest rows.",
            "Give the two writes conditions on different partitions or rows.",
            "Enable deletion vectors. If an OPTIMIZE reorders rows, enable row tracking too.",
        ),
        _HINTS,
        _OF_DELETED,
        (*_RAISED, Subclass.EMPTY_READ_PREDICATES),
    ),
    ExceptionGuide(
        ConcurrentDeleteDeleteException,
        "Both writes delete or rewrite the same file.",
        (
            "Two compactions of the same files",
            "OPTIMIZE concurrent with UPDATE, DELETE or MERGE on a table without deletion vectors",
        ),
        (
            "Run it again if it is still needed: the winning compaction may have done the work.",
            "Run the compactions from one schedule.",
            "Enable deletion vectors. The rows of an OPTIMIZE that keeps their order can "
            "then be traced.",
        ),
        _HINTS,
        _OF_DELETED,
        (*_RAISED, Subclass.EMPTY_READ_PREDICATES),
    ),
    ExceptionGuide(
        MetadataChangedException,
        "Another commit changed the metadata of the table: its schema, properties, "
        "partitioning or the high-water mark of an identity column.",
        (
            "ALTER TABLE, SET or UNSET TBLPROPERTIES",
            "A write that evolves the schema",
            "An INSERT, or a MERGE that inserts, into a table with an identity column",
        ),
        (
            "Run it again: it then reads the new metadata. Restart streams.",
            "Change schemas and properties when no other writer runs.",
            "If a table has several writers, assign ids outside the table.",
        ),
    ),
    ExceptionGuide(
        ConcurrentTransactionException,
        "Two writers committed under one application id, or wrote one metadata domain.",
        (
            "Two instances of one streaming query, or two queries that share a checkpoint location",
            "Two changes of the clustering columns",
        ),
        (
            "Stop all but one of the queries. Give each query its own checkpoint location.",
            "A retry cannot succeed while both queries run.",
            "Let only one writer at a time change the clustering.",
        ),
    ),
    ExceptionGuide(
        ProtocolChangedException,
        "Another commit changed the protocol of the table, or created or replaced the table first.",
        (
            "A table feature that was enabled or dropped, REORG … UPGRADE UNIFORM",
            "Several writers that create or replace one table",
            "Several writers that start with an empty path",
        ),
        (
            "Run it again. If the protocol was upgraded, you may need a newer engine that "
            "supports the table's new features.",
            "Create the table before its writers start. CREATE TABLE cannot be retried, "
            "because the table now exists. An append to its path can be retried.",
            "Upgrade tables when no other writer runs.",
        ),
        (),
        (Subclass.CONFLICTING_COMMIT, Subclass.WRITE_TO_EMPTY_DIRECTORY),
        (Subclass.WRITE_TO_EMPTY_DIRECTORY,),
    ),
)
TRANSACTIONS_ELSEWHERE = (
    "Databricks Runtime 18.0 and later runs several statements as one transaction (`BEGIN "
    "ATOMIC … END`,"
    " or `BEGIN TRANSACTION` and `COMMIT` in a SQL warehouse), for tables that Unity Catalog "
    "manages with"
    " catalog commits. After a conflict such a transaction is aborted as a whole, and each further"
    " statement raises `MULTI_STATEMENT_TRANSACTION_ROLLBACK_REQUIRED_AFTER_ABORT` until "
    "`ROLLBACK`."
    " Roll back, and run all of its statements again."
)
"""Databricks' newer multi-statement transactions, and the reasons they end."""
