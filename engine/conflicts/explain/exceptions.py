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
    Subclass.WITHOUT_HINT: "The message does not say where they overlapped.",
    Subclass.WITH_PARTITION_HINT: "They overlapped in the partitions named.",
    Subclass.ROW_LEVEL_CHANGES: "They touched the same rows.",
    Subclass.WHOLE_TABLE_READ: "This write read the whole table.",
    Subclass.EMPTY_READ_PREDICATES: "This write had no condition, and so read everything.",
    Subclass.ALLOTTED_TIME_EXCEEDED: "Their rows could not be compared in the time allowed.",
    Subclass.CHANGE_TYPE_COLUMN: (
        "A column named _change_type rules out row-level conflict resolution."
    ),
    Subclass.METADATA_CHANGE: "The winning commit changed the metadata too.",
    Subclass.PROTOCOL_CHANGE: "The winning commit changed the protocol too.",
    Subclass.PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE: (
        "The conflict could not be resolved at row level on a partitioned table."
    ),
    Subclass.PREDICATES_NEED_REWRITE: "The conditions could not be applied to single rows.",
    Subclass.WHOLE_TABLE_REPLACE: "The winning commit replaced the whole table.",
    Subclass.CONFLICTING_COMMIT: "The message names the winning commit.",
    Subclass.WRITE_TO_EMPTY_DIRECTORY: "Several writers wrote to a directory without a table.",
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
            "Two of UPDATE, DELETE and MERGE at the same partition or, in a table without partitions,"
            " anywhere in it: each writes the changed rows anew",
            "At Serializable, an INSERT that may hold rows of this write's condition",
            "A blind append whose rows a later write may have read",
        ),
        (
            "Run it again: it then reads the new data.",
            "Give the condition the partitions with literal values. In a MERGE, ON needs them too.",
            "Where the table has no partitions, enable deletion vectors: then rows decide.",
            "Where a blind append won, the level is why: Serializable counts it, WriteSerializable"
            " does not.",
        ),
        _HINTS,
        _OF_ADDED,
        _RAISED,
    ),
    ExceptionGuide(
        ConcurrentDeleteReadException,
        "Another commit deleted or rewrote a file that this write had read.",
        (
            "UPDATE, DELETE or MERGE of the same files or rows (two DELETEs only where files decide)",
            "OPTIMIZE that orders rows (ZORDER BY, or a clustered table), or on a table without"
            " deletion vectors",
            "A write that reads the whole table while another changes any of it",
        ),
        (
            "Run it again: it then reads the rows as they are now.",
            "Keep the two on different partitions or rows by their conditions.",
            "Enable deletion vectors, and row tracking where an OPTIMIZE orders rows.",
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
            "OPTIMIZE beside UPDATE, DELETE or MERGE on a table without deletion vectors",
        ),
        (
            "Run it again, where it is still needed: the winning compaction may have done the work.",
            "Put the compactions on one schedule.",
            "Enable deletion vectors: an OPTIMIZE that orders no rows is then traced row by row.",
        ),
        _HINTS,
        _OF_DELETED,
        (*_RAISED, Subclass.EMPTY_READ_PREDICATES),
    ),
    ExceptionGuide(
        MetadataChangedException,
        "Another commit changed the metadata of the table: schema, properties, partitioning or the"
        " mark of an identity column.",
        (
            "ALTER TABLE, SET or UNSET TBLPROPERTIES",
            "A write that evolves the schema",
            "An INSERT, or a MERGE that inserts, into a table with an identity column",
        ),
        (
            "Run it again: it then reads the new metadata. A stream has to be started again.",
            "Change schemas and properties in a quiet window.",
            "Give out ids outside of a table that has several writers.",
        ),
    ),
    ExceptionGuide(
        ConcurrentTransactionException,
        "Two writers committed under one application id, or wrote one metadata domain.",
        (
            "Two runs of one streaming query, or two queries on one checkpoint location",
            "Two changes of the clustering columns",
        ),
        (
            "Stop all but one of the queries. Give each query a checkpoint location of its own.",
            "A retry cannot succeed while both run.",
            "Let one writer at a time change the clustering.",
        ),
    ),
    ExceptionGuide(
        ProtocolChangedException,
        "Another commit changed the protocol of the table, or created or replaced the table first.",
        (
            "A table feature that was enabled or dropped, REORG … UPGRADE UNIFORM",
            "Several writers that create or replace one table",
            "Several writers to an empty path",
        ),
        (
            "Run it again. Where the protocol was upgraded, a newer engine may be needed: one that"
            " knows the features that the table has now.",
            "Create the table before its writers start. CREATE TABLE cannot be retried, since the"
            " table is there; an append to its path can.",
            "Upgrade tables in a quiet window.",
        ),
        (),
        (Subclass.CONFLICTING_COMMIT, Subclass.WRITE_TO_EMPTY_DIRECTORY),
        (Subclass.WRITE_TO_EMPTY_DIRECTORY,),
    ),
)
TRANSACTIONS_ELSEWHERE = (
    "Databricks Runtime 18.0 and later runs several statements as one transaction (`BEGIN ATOMIC … END`,"
    " or `BEGIN TRANSACTION` and `COMMIT` in a SQL warehouse), for tables that Unity Catalog manages with"
    " catalog commits. After a conflict such a transaction is aborted as a whole, and each further"
    " statement raises `MULTI_STATEMENT_TRANSACTION_ROLLBACK_REQUIRED_AFTER_ABORT` until `ROLLBACK`."
    " Roll back, and run all of its statements again."
)
"""Databricks' newer multi-statement transactions, and the reasons they end."""
