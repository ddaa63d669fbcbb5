"""The remedies as tables: what to do, why it helps, when it is shown, and its trial on a copy.

docs/semantics.md lists `action` and `when` of each; a test keeps them consistent. A remedy without
an entry in `CHANGES` cannot be tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.conflict_facts import RemedyKind, TrialChange
from engine.conflicts.eligibility import ROW_TRACKING_PROPERTY, VECTORS_PROPERTY
from engine.conflicts.isolation import IsolationLevel

EXAMPLE_PARTITION = "day = '2026-11-02'"
ALONE_BESIDE_REPLACE = "run the write that replaces the table when nothing else writes to it"
ONE_SCHEDULE_IF_BOTH = "if both are compactions, put them on one schedule"
ON_ROW_LEVEL_RUNTIME = ", on an engine with row-level concurrency"
MERGE_PARTITION_REASON = (
    "A MERGE reads all partitions between the lowest and the highest source value of a "
    "column that ON joins. Literal values exclude the partitions in between, and partitions "
    "of columns that ON does not join."
)
NOT_BY_PARTITIONS = (
    "Each value becomes a directory with its own small files, and conflicts of partitioned "
    "tables are decided at file level, here and on Databricks. Clustering separates rows "
    "without these costs."
)
NOT_BY_SERIALIZABLE = (
    "The stricter level only adds conflicts, because blind appends then count too."
)
ADD_CONDITION: Mapping[str, tuple[str, str]] = {
    "MERGE": (
        "join a column of the table with a column of the source in ON, and move NOT MATCHED "
        "BY SOURCE to a separate statement",
        "A MERGE reads the rows between the lowest and the highest source value of such a "
        "column. Without such a column, or with a NOT MATCHED BY SOURCE clause, it reads the "
        "whole table.",
    ),
    "WRITE": (
        "read or replace only the rows that it needs, with a condition in its query or with "
        "REPLACE WHERE",
        "A write that reads or replaces the whole table conflicts with every other write to it.",
    ),
}
"""Texts for statements without a WHERE."""


@dataclass(frozen=True, slots=True)
class RemedyText:
    """The texts of a remedy: what to do, why it helps, and when it is shown."""

    action: str
    reason: str
    when: str


TEXTS: Mapping[RemedyKind, RemedyText] = {
    RemedyKind.CREATE_FIRST: RemedyText(
        "create the table before its writers start",
        "When several writers start with an empty directory, only one can commit version 0. "
        "The table exists now: open it and write to it.",
        "both writes started with an empty directory",
    ),
    RemedyKind.READ_AGAIN: RemedyText(
        "create the DataFrame again from the table, and repeat the write with it",
        "A DataFrame keeps the table version at which it was created, even when the write is "
        "retried.",
        "the rows come from a DataFrame of an earlier version of the table",
    ),
    RemedyKind.RETRY: RemedyText(
        "run it again on the latest version of the table",
        "It then reads the result of the winning commit. The conflicts can return as long as "
        "both writers run.",
        "a retry can succeed",
    ),
    RemedyKind.RESTART_STREAM: RemedyText(
        "restart the stream",
        "It replays the batch on the latest version, and no row is lost. The conflicts can "
        "return as long as both writers run.",
        "the write was a stream's",
    ),
    RemedyKind.FEWER_COMMITS: RemedyText(
        "commit less often, with larger batches or fewer writers",
        "Each attempt found its version taken by another commit. A retry only succeeds if "
        "other writers pause.",
        "the commit found its version taken too many times",
    ),
    RemedyKind.IDENTITY: RemedyText(
        "assign the ids outside the table, and drop the identity column",
        "Every insert into a table with an identity column changes the table's metadata, and "
        "its conflicts are decided at file level.",
        "the table has an identity column, and an insert changed the metadata or the "
        "conflict was decided at file level",
    ),
    RemedyKind.QUIET_WINDOW: RemedyText(
        "change schemas, properties and features when no other writer runs",
        "A change of the metadata or protocol aborts every write that began before it. A "
        "write that evolves the schema or fills an identity column also changes the metadata.",
        "the winning commit changed the metadata or the protocol",
    ),
    RemedyKind.ONE_WRITER: RemedyText(
        "let only one writer at a time change it",
        "A metadata domain has one value, so one of two concurrent writers of it is aborted.",
        "both wrote one metadata domain",
    ),
    RemedyKind.OWN_CHECKPOINT: RemedyText(
        "give each streaming query its own checkpoint location, and run only one instance of it",
        "Queries that share a checkpoint share an application id, and each batch can be "
        "committed only once.",
        "both used one application id",
    ),
    RemedyKind.ALONE: RemedyText(
        "run it when nothing else writes to the table",
        "A write that replaces or reads the whole table conflicts with every other write to it.",
        "RESTORE, CLONE, REPLACE, TRUNCATE or a checked ALTER was aborted, or the winning commit"
        " replaced the table",
    ),
    RemedyKind.ROW_TRACKING: RemedyText(
        "enable row tracking (`delta.enableRowTracking = true`)",
        "OPTIMIZE of a clustered table and ZORDER BY reorder rows. Only row ids show where "
        "each row moved.",
        "one of the writes is a compaction, and row tracking is off",
    ),
    RemedyKind.ONE_SCHEDULE: RemedyText(
        "run the two compactions from one schedule",
        "Both rewrite the same small files, so the work of one is wasted.",
        "both writes are compactions",
    ),
    RemedyKind.MORE_TIME: RemedyText(
        "write fewer rows at a time, or raise the time limit for comparing rows",
        "The rows of the two writes could not be compared within the time limit of a commit.",
        "the sub-class is `ALLOTTED_TIME_EXCEEDED`",
    ),
    RemedyKind.DIFFERENT_ROWS: RemedyText(
        "give the two writes conditions that cannot select the same rows",
        "The comparison of rows showed that both writes concern the same rows.",
        "the sub-class is `ROW_LEVEL_CHANGES`",
    ),
    RemedyKind.RENAME_COLUMN: RemedyText(
        "rename the column `_change_type`",
        "The change data feed uses this name. Rows cannot be compared while a column has it.",
        "the sub-class is `CHANGE_TYPE_COLUMN`",
    ),
    RemedyKind.REWRITE_CONDITION: RemedyText(
        "rewrite the condition as plain comparisons of columns with literals",
        "Rows can be compared only where the condition can be applied to single rows.",
        "the sub-class is `PREDICATES_NEED_REWRITE`",
    ),
    RemedyKind.ADD_CONDITION: RemedyText(
        "add a condition that selects only the rows it needs",
        "A write that reads the whole table conflicts with every other write to it.",
        "the write read every row, and can take a condition",
    ),
    RemedyKind.PARTITION_PREDICATE: RemedyText(
        f"select the partitions in its condition with literal values, as in `{EXAMPLE_PARTITION}`",
        "A write does not read files of partitions that its condition excludes. This helps "
        "if the winning commit changed other partitions.",
        "the table is partitioned, and the condition leaves a partition column open",
    ),
    RemedyKind.DELETION_VECTORS: RemedyText(
        "enable deletion vectors (`delta.enableDeletionVectors = true`)",
        "Two writes to one file then conflict only if they concern the same rows, and "
        "compactions that keep the order of rows conflict with no write. Clients that cannot "
        "read deletion vectors can no longer read the table.",
        "deletion vectors are off, and row-level resolution is possible: for a compaction, "
        "or a condition on a table without partitions",
    ),
    RemedyKind.PLAIN_CONDITION: RemedyText(
        "use a condition without subqueries, UDFs, nondeterministic functions, or struct, "
        "array or map values",
        "Row-level resolution needs a condition that always gives the same result for the "
        "same row.",
        "the condition or a value that is set holds one of these",
    ),
    RemedyKind.SEPARATE_SOURCE: RemedyText(
        "write the source of the MERGE to a separate table first",
        "A MERGE whose source reads its target is decided at file level.",
        "the source of a MERGE reads its target",
    ),
    RemedyKind.CLUSTER_INSTEAD: RemedyText(
        "cluster the table by its partition columns instead (`CLUSTER BY`)",
        "Conflicts of partitioned tables are decided at file level. On a clustered table "
        "with deletion vectors, two writes to one file conflict only if they concern the "
        "same rows. The change rewrites the table.",
        "the table is partitioned, and row-level resolution would be possible without partitions",
    ),
    RemedyKind.ROW_LEVEL_ENGINE: RemedyText(
        "run it on an engine with row-level concurrency",
        "Open-source delta-spark, delta-rs and Trino always compare files. This engine and "
        "Databricks Runtime 14.3 LTS and later compare rows.",
        "the aborted write ran on an engine that compares files",
    ),
    RemedyKind.SAME_ENGINES: RemedyText(
        "change the table only with engines that write deletion vectors",
        "The winning commit rewrote whole files, so it is not known which of their rows it "
        "changed.",
        "deletion vectors are on, and the winning commit rewrote whole files",
    ),
    RemedyKind.LAYOUT: RemedyText(
        "partition or cluster the table by the columns that conditions use",
        "The rows of the two writes are then in different files. Partitioning by a column "
        "with many values costs more in small files than it saves in conflicts.",
        "the write had a condition, and the table is neither partitioned nor clustered by "
        "its columns",
    ),
    RemedyKind.ALLOW_REORDERING: RemedyText(
        "set the isolation level to `WriteSerializable` (`delta.isolationLevel`), if writes "
        "may take effect in a different order than in the history",
        "A blind append conflicts with a concurrent write only at Serializable. At "
        "WriteSerializable both commit, and the append takes effect after the write. The "
        "cost is that rows that a DELETE or an UPDATE would have matched can stay as they "
        "are, and readers can see out-of-order versions. Open-source delta-spark honors this "
        "level but cannot set it.",
        "the level is Serializable, and the winning commit is a blind append",
    ),
    RemedyKind.OFF_FRESH_DATA: RemedyText(
        "exclude newly appended data from the conditions of concurrent UPDATE, DELETE and "
        "MERGE, or let one of them read it",
        "A blind append by itself conflicts with no write. After a later commit may have "
        "read its rows, a write that did not see them can no longer be ordered before it.",
        "the winning commit may have read a blind append that this write did not see",
    ),
    RemedyKind.COMPACT_IN_QUIET: RemedyText(
        "compact when no other write rewrites those files",
        "If the rows of a compaction cannot be traced, it counts as a rewrite of all its files.",
        "one of the writes is a compaction",
    ),
    RemedyKind.APART_IN_TIME: RemedyText(
        "run the two at different times",
        "The records show no better way to separate the two writes.",
        "no other fix applies",
    ),
}


AS_IT_WAS = TrialChange()
"""No change: the conflict must recur, or the copy proves nothing."""
_LATER = TrialChange(after_winners=True)

CHANGES: Mapping[RemedyKind, TrialChange] = {
    RemedyKind.RETRY: _LATER,
    RemedyKind.READ_AGAIN: _LATER,
    RemedyKind.QUIET_WINDOW: _LATER,
    RemedyKind.ONE_WRITER: _LATER,
    RemedyKind.ALONE: _LATER,
    RemedyKind.ONE_SCHEDULE: _LATER,
    RemedyKind.COMPACT_IN_QUIET: _LATER,
    RemedyKind.APART_IN_TIME: _LATER,
    RemedyKind.ALLOW_REORDERING: TrialChange(
        properties={"delta.isolationLevel": str(IsolationLevel.WRITE_SERIALIZABLE)}
    ),
    RemedyKind.DELETION_VECTORS: TrialChange(
        properties={VECTORS_PROPERTY: "true"}, winners_again=True
    ),
    RemedyKind.ROW_TRACKING: TrialChange(
        properties={ROW_TRACKING_PROPERTY: "true"}, winners_again=True
    ),
}
"""The change of each remedy. Starting later is the same change for every reason."""
SERIALIZABLE = TrialChange(properties={"delta.isolationLevel": str(IsolationLevel.SERIALIZABLE)})
_YOURS = "the result depends on the condition you choose: try a condition below"
_LAYOUT = "the whole table would have to be rewritten"
WHY_NOT: Mapping[RemedyKind, str] = {
    RemedyKind.ADD_CONDITION: _YOURS,
    RemedyKind.DIFFERENT_ROWS: _YOURS,
    RemedyKind.PARTITION_PREDICATE: _YOURS,
    RemedyKind.REWRITE_CONDITION: _YOURS,
    RemedyKind.PLAIN_CONDITION: _YOURS,
    RemedyKind.CLUSTER_INSTEAD: _LAYOUT,
    RemedyKind.LAYOUT: _LAYOUT,
    RemedyKind.IDENTITY: _LAYOUT,
}
"""Why a remedy cannot be tried; omitted ones are not applied to the table itself."""
ELSEWHERE = "it changes other programs instead of this write or its table"
