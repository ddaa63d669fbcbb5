"""The facts of a conflict: both sides, the shared files, and remedies, as plain values.

`engine.errors` raises them and also exports these names.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Rule(StrEnum):
    """The checks of a commit, in Delta's order. The values are recorded with every conflict.

    `engine.conflicts.decide.checker.CHECKS` defines the purpose, exception and name of each.
    """

    PROTOCOL_CHANGED = "protocol_changed"
    METADATA_CHANGED = "metadata_changed"
    DOMAIN_WRITTEN = "domain_written"
    APPLICATION_COMMITTED = "application_committed"
    DATA_ADDED = "data_added"
    READ_FILE_REMOVED = "read_file_removed"
    REMOVED_FILE_REMOVED = "removed_file_removed"


class Subclass(StrEnum):
    """The sub-classes of Delta's conflict codes.

    `engine.conflicts.explain.exceptions` documents them and their codes.
    """

    WITHOUT_HINT = "WITHOUT_HINT"
    WITH_PARTITION_HINT = "WITH_PARTITION_HINT"
    ROW_LEVEL_CHANGES = "ROW_LEVEL_CHANGES"
    WHOLE_TABLE_READ = "WHOLE_TABLE_READ"
    EMPTY_READ_PREDICATES = "EMPTY_READ_PREDICATES"
    ALLOTTED_TIME_EXCEEDED = "ALLOTTED_TIME_EXCEEDED"
    CHANGE_TYPE_COLUMN = "CHANGE_TYPE_COLUMN"
    METADATA_CHANGE = "METADATA_CHANGE"
    PROTOCOL_CHANGE = "PROTOCOL_CHANGE"
    PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE = "PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE"
    PREDICATES_NEED_REWRITE = "PREDICATES_NEED_REWRITE"
    WHOLE_TABLE_REPLACE = "WHOLE_TABLE_REPLACE"
    CONFLICTING_COMMIT = "CONFLICTING_COMMIT"
    WRITE_TO_EMPTY_DIRECTORY = "WRITE_TO_EMPTY_DIRECTORY"


class Verdict(StrEnum):
    """The outcome of a write that did not see another commit: one word per outcome everywhere.

    The first five forecast when two operations conflict. The next four are the outcome of a write
    against overlapping commits, actual or under another setting; so is EXEMPT. NOTHING and
    NOT_REACHED are results of a single check. The values are recorded with every conflict.
    """

    NEVER = "never"
    EXEMPT = "exempt"  # a blind append; the write may be ordered before it
    SAME_ROW = "same row"  # if both touch one row, or one reads a row the other changes
    SAME_FILES = "same file set"  # if both touch one file, even different rows
    ALWAYS = "always"
    PASSES = "passes"  # no check finds a conflict
    RESOLVED = "resolved"  # a conflict at file level, none at row level
    CONFLICT = "conflict"
    UNDECIDABLE = "undecidable"  # the record is not sufficient
    NOTHING = "none"  # the winning commit has nothing for the check to examine
    NOT_REACHED = "not reached"  # an earlier check found a conflict


class RemedyKind(StrEnum):
    """The kinds of remedies. The values are recorded with every conflict.

    `engine.conflicts.explain.remedies` defines when each can help and its text.
    """

    CREATE_FIRST = "create_first"
    READ_AGAIN = "read_again"
    RETRY = "retry"
    RESTART_STREAM = "restart_stream"
    FEWER_COMMITS = "fewer_commits"
    IDENTITY = "identity"
    QUIET_WINDOW = "quiet_window"
    ONE_WRITER = "one_writer"
    OWN_CHECKPOINT = "own_checkpoint"
    ALONE = "alone"
    ROW_TRACKING = "row_tracking"
    ONE_SCHEDULE = "one_schedule"
    MORE_TIME = "more_time"
    DIFFERENT_ROWS = "different_rows"
    RENAME_COLUMN = "rename_column"
    REWRITE_CONDITION = "rewrite_condition"
    ADD_CONDITION = "add_condition"
    PARTITION_PREDICATE = "partition_predicate"
    DELETION_VECTORS = "deletion_vectors"
    PLAIN_CONDITION = "plain_condition"
    SEPARATE_SOURCE = "separate_source"
    CLUSTER_INSTEAD = "cluster_instead"
    ROW_LEVEL_ENGINE = "row_level_engine"
    SAME_ENGINES = "same_engines"
    LAYOUT = "layout"
    ALLOW_REORDERING = "allow_reordering"
    OFF_FRESH_DATA = "off_fresh_data"
    COMPACT_IN_QUIET = "compact_in_quiet"
    APART_IN_TIME = "apart_in_time"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to avoid the conflict next time, and why it would have helped."""

    action: str
    reason: str
    kind: RemedyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialChange:
    """The changes for another trial of an aborted write, on a copy.

    Attributes:
        properties: table properties set before the write reads the table.
        winners_again: whether overlapping commits would have written other files too: those that
            changed data run again.
        condition: joined to the write's own by AND.
        after_winners: whether the write begins after the others have committed.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    winners_again: bool = False
    condition: str = ""
    after_winners: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The outcome of a trial: PASSES, RESOLVED, CONFLICT, or UNDECIDABLE if it was not possible.

    `winning_version` is as in the table's own log. `metrics` are those of the hypothetical commit.
    `needs_spark`: it is never possible, since trials run without Spark.
    """

    verdict: Verdict
    why: str
    rule: Rule | None = None
    winning_version: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    needs_spark: bool = False


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """A file both sides touched: the rule involved, its partition, its rows if known."""

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    role: str = ""  # the winning commit's change: "added", "removed", "rewritten"
    rows: tuple[int, ...] = ()  # physical positions in the file, the first 100: a sample
    row_count: int | None = None  # the number of all rows


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """One of the two transactions. `version` is None for the aborted one."""

    operation: str
    version: int | None = None
    read_version: int | None = None
    predicate: str | None = None
    isolation_level: str | None = None
    txn_id: str | None = None
    user: str | None = None
    engine: str | None = None
    timestamp_ms: int | None = None
    is_blind_append: bool | None = None


@dataclass(frozen=True, slots=True)
class SideChanges:
    """One side's changes to files of the table. None: unknown."""

    files_changed: int = 0  # existing files: deleted, rewritten or masked
    files_masked: int = 0  # changed files with a new deletion vector
    files_added: int = 0
    rows_changed: int | None = None  # existing rows
    rows_added: int | None = None


@dataclass(frozen=True, slots=True)
class SideFile:
    """One file of one side, with its bounds in the layout column."""

    path: str
    did: str  # "changed", "added", "read", "matched"
    low: str | None = None
    high: str | None = None
    row_count: int | None = None  # the rows changed or added


@dataclass(frozen=True, slots=True)
class SideReads:
    """The reads of the aborted or rebased transaction."""

    conditions: int = 0
    whole_table: bool = False
    files: int = 0
    obstacle: str | None = None  # why files alone decide; None: rows can


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file with compared rows, in numbers; for one such file with positions.

    The counts: rows this transaction changed (`did` "changed") or read ("read"), rows the winning
    commit removed or added, rows deleted before either, and rows common to both sides. The
    positions are physical, in ascending order, at most 200 of each, evenly sampled. At `version`
    the common rows are readable.
    """

    path: str
    did: str
    current_count: int
    winner_count: int
    gone_before_count: int
    common_count: int
    file_row_count: int | None = None
    current_rows: tuple[int, ...] = ()
    winner_rows: tuple[int, ...] = ()
    gone_before_rows: tuple[int, ...] = ()
    common_rows: tuple[int, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class WinnerVerdicts:
    """The verdict of each check on one winning commit; `how` is the means of a resolution."""

    version: int
    operation: str
    verdicts: dict[Rule, Verdict]
    how: str = ""
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The comparison of the two sides. Every list is bounded, every count is not.

    `winners` are the last ones checked, in order; `winners_before` is the number of earlier ones.
    `duration_ms` is the time spent comparing rows with this winning commit, out of a commit's
    `budget_ms`; `files_opened` were read for it. `order_column` is the column of the files' bounds,
    and `table_files` the number of files in the version read.
    """

    reads: SideReads
    current_changes: SideChanges
    winner_changes: SideChanges
    winners: tuple[WinnerVerdicts, ...] = ()
    winners_before: int = 0
    shared_files: tuple[SharedFile, ...] = ()
    order_column: str = ""
    table_files: int | None = None
    current_files: tuple[SideFile, ...] = ()
    winner_files: tuple[SideFile, ...] = ()
    duration_ms: int | None = None
    budget_ms: int | None = None
    files_opened: int | None = None


@dataclass(frozen=True, slots=True)
class ConflictFacts:
    """A conflict with both sides: all facts about why the write was aborted.

    `file_count` and `row_count` cover everything both sides touched, while `files` and their rows
    may be only the first ones. `row_count` is None if files decided.
    """

    table: str
    read_version: int
    attempted_version: int
    rule: Rule
    subclass: Subclass | None  # None: Delta's code has no sub-classes
    current: ConflictSide
    winner: ConflictSide
    files: tuple[ConflictFile, ...] = ()
    file_count: int = 0
    row_count: int | None = None
    partitions: tuple[str, ...] = ()
    can_retry: bool = True
    remedies: tuple[Remedy, ...] = ()
    what: str = ""  # the message's sentence on the event
    row_level: str = ""  # why rows, if compared, could not resolve the conflict
    decision: Decision | None = None  # None: not recorded

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
