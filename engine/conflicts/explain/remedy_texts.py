"""The texts of the remedies: what to do, why it helps, and when it is shown.

docs/semantics.md lists `action` and `when` of each; a test keeps them consistent.

Remedies that can be tried on a copy of the table, and why the others cannot.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.conflict_facts import RemedyKind, TrialChange
from engine.conflicts.eligibility import ROW_TRACKING_PROPERTY, VECTORS_PROPERTY
from engine.conflicts.isolation import IsolationLevel

EXAMPLE_PARTITION = "day = '2026-11-02'"
ALONE_BESIDE_REPLACE = "run the write that replaces the table while nothing else writes it"
ONE_SCHEDULE_IF_BOTH = "if both are compactions, put them on one schedule"
ON_ROW_LEVEL_RUNTIME = ", on an engine with row-level concurrency"
MERGE_PARTITION_REASON = (
    "A MERGE reads the partitions between the lowest and the highest value that its source has for a"
    " column that ON joins. Literal values leave out those in between, and those of a column that ON"
    " does not join."
)
NOT_BY_PARTITIONS = (
    "Every value becomes a directory with small files of its own, and partitioned tables are decided"
    " at file level, here as on Databricks. Clustering keeps rows apart without either."
)
NOT_BY_SERIALIZABLE = "The stricter level only adds conflicts: blind appends then count too."
ADD_CONDITION: Mapping[str, tuple[str, str]] = {
    "MERGE": (
        "join a column of the table with one of the source in ON, and do what NOT MATCHED BY SOURCE"
        " does in a statement of its own",
        "A MERGE reads the rows between the lowest and the highest value that its source has for such"
        " a column. Without one, or with a clause NOT MATCHED BY SOURCE, it reads the whole table.",
    ),
    "WRITE": (
        "read or replace only the rows that it needs, by a condition in its query or by REPLACE WHERE",
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
        "create the table first, before its writers start",
        "Of several writers to one empty directory, one gets version 0. The table is there now: open"
        " it and write to it.",
        "both sides wrote to an empty directory",
    ),
    RemedyKind.READ_AGAIN: RemedyText(
        "make the DataFrame anew from the table, and run the write with that one",
        "A DataFrame of the table stays at the version it was made at, however often the write is"
        " begun again.",
        "the rows of the write are a DataFrame of an earlier version of the table",
    ),
    RemedyKind.RETRY: RemedyText(
        "run it again on the latest version of the table",
        "It then reads what the winning commit wrote. While both keep running, so do the conflicts.",
        "a retry can succeed",
    ),
    RemedyKind.RESTART_STREAM: RemedyText(
        "restart the stream",
        "It replays the batch on the latest version; nothing is lost. While both keep running, so do"
        " the conflicts.",
        "the write was a stream's",
    ),
    RemedyKind.FEWER_COMMITS: RemedyText(
        "commit less often: larger batches, fewer writers",
        "A commit that always finds its version taken waits for a pause that never comes.",
        "a commit lost the race for a version too often",
    ),
    RemedyKind.IDENTITY: RemedyText(
        "assign the ids outside of the table, and drop the identity column",
        "Every insert into a table with an identity column changes its metadata, and its writes are"
        " decided at file level.",
        "the table has an identity column, and an insert changed the metadata or files decided",
    ),
    RemedyKind.QUIET_WINDOW: RemedyText(
        "change schemas, properties and features in a quiet window",
        "A change of metadata or protocol aborts every write that began before it. A write changes the"
        " metadata too where it evolves the schema or fills an identity column.",
        "the winning commit changed the metadata or the protocol",
    ),
    RemedyKind.ONE_WRITER: RemedyText(
        "let one writer at a time change it",
        "A metadata domain has one value: of two writers that did not see each other, one is aborted.",
        "both wrote one metadata domain",
    ),
    RemedyKind.OWN_CHECKPOINT: RemedyText(
        "give every streaming query a checkpoint location of its own, and run each query once",
        "Queries that share a checkpoint have one application id, and each batch can land once.",
        "both used one application id",
    ),
    RemedyKind.ALONE: RemedyText(
        "run it while nothing else writes the table",
        "A write that sets or reads the whole table conflicts with every other write to it.",
        "RESTORE, CLONE, REPLACE, TRUNCATE or a checked ALTER was aborted, or the winning commit"
        " replaced the table",
    ),
    RemedyKind.ROW_TRACKING: RemedyText(
        "enable row tracking (`delta.enableRowTracking = true`)",
        "OPTIMIZE of a clustered table and ZORDER BY order rows anew: only row ids tell where each"
        " went.",
        "a compaction is on either side, and row tracking is off",
    ),
    RemedyKind.ONE_SCHEDULE: RemedyText(
        "put the two compactions on one schedule",
        "Both rewrite the same small files: the work of one of them is wasted.",
        "both sides are compactions",
    ),
    RemedyKind.MORE_TIME: RemedyText(
        "write in smaller pieces, or raise the time allowed for comparing rows",
        "The rows of the two writes could not be compared in the time that one commit has.",
        "the sub-class is `ALLOTTED_TIME_EXCEEDED`",
    ),
    RemedyKind.DIFFERENT_ROWS: RemedyText(
        "keep the two writes on different rows, by conditions that cannot select the same ones",
        "Rows were compared, and both writes concern the same.",
        "the sub-class is `ROW_LEVEL_CHANGES`",
    ),
    RemedyKind.RENAME_COLUMN: RemedyText(
        "rename the column `_change_type`",
        "The change data feed uses that name; rows cannot be compared while a column has it.",
        "the sub-class is `CHANGE_TYPE_COLUMN`",
    ),
    RemedyKind.REWRITE_CONDITION: RemedyText(
        "rewrite the condition as plain comparisons of columns with literals",
        "Rows can be compared only where the condition can be applied to single rows.",
        "the sub-class is `PREDICATES_NEED_REWRITE`",
    ),
    RemedyKind.ADD_CONDITION: RemedyText(
        "give it a condition that says which rows it needs",
        "A write that reads the whole table conflicts with every other write to it.",
        "the write read every row, and can take a condition",
    ),
    RemedyKind.PARTITION_PREDICATE: RemedyText(
        f"name the partitions in its condition with literal values, as in `{EXAMPLE_PARTITION}`",
        "Files of partitions that a condition rules out are not read: it helps where the write"
        " concerns other partitions than the winning commit.",
        "the table is partitioned, and the condition leaves a partition column open",
    ),
    RemedyKind.DELETION_VECTORS: RemedyText(
        "enable deletion vectors (`delta.enableDeletionVectors = true`)",
        "Two writes of one file then conflict only where they concern the same rows, and compactions"
        " that keep the order of rows conflict with none. Clients that cannot read deletion vectors"
        " are locked out.",
        "they are not on, and rows could decide: a compaction, or a condition on a table without"
        " partitions",
    ),
    RemedyKind.PLAIN_CONDITION: RemedyText(
        "use a plain condition: no subquery, no UDF, no struct, array or map values, nothing that is"
        " not deterministic",
        "Rows can be compared by a condition that gives one row the same answer each time.",
        "the condition or a value that is set holds one of these",
    ),
    RemedyKind.SEPARATE_SOURCE: RemedyText(
        "write the source of the MERGE to a table of its own first",
        "A MERGE whose source reads its target is decided at file level.",
        "the source of a MERGE reads its target",
    ),
    RemedyKind.CLUSTER_INSTEAD: RemedyText(
        "cluster the table by its partition columns instead (`CLUSTER BY`)",
        "Partitioned tables are decided at file level. On a clustered table with deletion vectors two"
        " writes of one file conflict only where they concern the same rows. The table is rewritten.",
        "the table is partitioned, and rows could decide",
    ),
    RemedyKind.ROW_LEVEL_ENGINE: RemedyText(
        "run it on an engine with row-level concurrency",
        "Open-source delta-spark, delta-rs and Trino compare files, whatever the table is. This engine"
        " and Databricks Runtime 14.3 LTS and later compare rows.",
        "the aborted write ran on an engine that compares files",
    ),
    RemedyKind.SAME_ENGINES: RemedyText(
        "change the table only with engines that use its deletion vectors",
        "The winning commit rewrote whole files: which of their rows it changed is not known.",
        "deletion vectors are on, and the winning commit rewrote whole files",
    ),
    RemedyKind.LAYOUT: RemedyText(
        "partition or cluster the table by the columns that conditions use",
        "The files of one write then hold rows that the other's condition rules out. Partitioning by a"
        " column of high cardinality costs more in small files than it saves in conflicts.",
        "the write had a condition, and the table is neither partitioned nor clustered by its columns",
    ),
    RemedyKind.ALLOW_REORDERING: RemedyText(
        "set the isolation level to `WriteSerializable` (`delta.isolationLevel`), if writes may take"
        " effect in another order than the history's",
        "Only at Serializable does a blind append count for a write that did not see it. At"
        " WriteSerializable both commit, and the append takes effect after the write. The cost: rows"
        " that a DELETE or an UPDATE would have matched can stay as they are, and readers see versions"
        " that no prefix of the history explains. Open-source delta-spark honors that level and cannot"
        " set it.",
        "the level is Serializable, and the winning commit is a blind append",
    ),
    RemedyKind.OFF_FRESH_DATA: RemedyText(
        "keep concurrent UPDATE, DELETE and MERGE off freshly appended data, or let one of them read it",
        "A blind append conflicts with nothing by itself. Once a later commit may have read its rows,"
        " a write that did not see them can no longer be ordered before it.",
        "the winning commit may have read a blind append that this write did not see",
    ),
    RemedyKind.COMPACT_IN_QUIET: RemedyText(
        "compact while nothing else rewrites those files",
        "A compaction that cannot be traced row by row counts as a rewrite of all its files.",
        "one side is a compaction",
    ),
    RemedyKind.APART_IN_TIME: RemedyText(
        "run the two at different times",
        "Nothing that is recorded tells a better way to keep them apart.",
        "nothing else can help",
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
_YOURS = "it depends on the condition that you choose: try one below"
_LAYOUT = "the whole table would have to be written again"
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
ELSEWHERE = "it changes other programs, not this write or its table"
