"""What a conflict is about: both sides, the files they share, and how to avoid it, as plain values.

`engine.errors` raises them, with these names at hand there too.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Rule(StrEnum):
    """The checks of a commit, in Delta's order. The values are recorded with every conflict.

    What each looks for, raises and is called stands in `engine.conflicts.checker.CHECKS`.
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

    Which code has which, and what each means, stands in `engine.conflicts.exceptions`.
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
    """What becomes of a write that did not see another commit: one word for one answer everywhere.

    Of two operations before they run, the first five say when they conflict. Of a write and the
    commits that it overlapped with, the next four say what came of them, or would under another
    setting; EXEMPT says so too. NOTHING and NOT_REACHED are of one check alone. The values are
    recorded with every conflict.
    """

    NEVER = "never"
    EXEMPT = "exempt"  # a blind append that the write may be ordered before
    SAME_ROW = "same row"  # where both touch one row, or one reads a row that the other changes
    SAME_FILES = "same file set"  # where both touch one file, whichever rows of it
    ALWAYS = "always"
    PASSES = "passes"  # no check finds a conflict
    RESOLVED = "resolved"  # there was one at file level, none at row level
    CONFLICT = "conflict"
    UNDECIDABLE = "undecidable"  # what is recorded does not tell
    NOTHING = "none"  # the winning commit holds nothing that the check examines
    NOT_REACHED = "not reached"  # an earlier check found a conflict


class RemedyKind(StrEnum):
    """What a remedy changes. The values are recorded with every conflict.

    When each can help, and how it reads, stands in `engine.conflicts.remedies`.
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
    """What is otherwise than it was when an aborted write is tried again on a copy.

    Attributes:
        properties: of the table, set before the write reads it.
        winners_again: whether the commits that it overlapped with would have written other files
            too: those that changed data run again.
        condition: what AND adds to the write's own.
        after_winners: whether the write begins once the others have committed.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    winners_again: bool = False
    condition: str = ""
    after_winners: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What became of it: PASSES, RESOLVED, CONFLICT, or UNDECIDABLE where it could not be tried.

    `winning_version` is as in the table's own log. `metrics` are of the commit it would have made.
    `needs_spark`: it could not be tried since trials run without Spark, however often one asks.
    """

    verdict: Verdict
    why: str
    rule: Rule | None = None
    winning_version: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    needs_spark: bool = False


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """A file that both sides touched: which rule saw it, its partition, its rows where known."""

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    role: str = ""  # "added", "removed", "rewritten": what the winning commit did to it
    rows: tuple[int, ...] = ()  # physical positions in the file, the first 100: a sample
    row_count: int | None = None  # of all of them


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
    """What one side did to the files of the table. None: the log does not say."""

    files_changed: int = 0  # files that were there: deleted, rewritten or masked
    files_masked: int = 0  # of them, those with a new deletion vector
    files_added: int = 0
    rows_changed: int | None = None  # rows that were there
    rows_added: int | None = None


@dataclass(frozen=True, slots=True)
class SideFile:
    """One file of one side, with its bounds in the column that files are laid out by."""

    path: str
    did: str  # "changed", "added", "read", "matched"
    low: str | None = None
    high: str | None = None
    row_count: int | None = None  # the rows changed or added


@dataclass(frozen=True, slots=True)
class SideReads:
    """What the aborted or rebased transaction had read."""

    conditions: int = 0
    whole_table: bool = False
    files: int = 0
    obstacle: str | None = None  # why files alone decide; None: rows can


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file whose rows both sides were asked about, in numbers; one of them with positions too.

    The counts: rows that this transaction changed (`did` "changed") or read ("read"), rows that the
    winning commit removed or added, rows that were deleted before either, and rows that are both
    sides'. The positions are physical, in ascending order, at most 200 of each, spread evenly over
    all. At `version` the rows that are both sides' can be read.
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
    """What each check said of one winning commit; `how` says by what rows resolved it, where they did."""

    version: int
    operation: str
    verdicts: dict[Rule, Verdict]
    how: str = ""
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """How the two sides were compared. Every list is bounded, every count is not.

    `winners` are the last ones that were checked, in order; `winners_before` came before them.
    `duration_ms` is the time spent comparing rows with this winning commit, out of the `budget_ms`
    that one commit has; `files_opened` were read for it. `order_column` is what the bounds of the
    files are of, and `table_files` how many files the table had when it was read.
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
    """A conflict with both sides: everything a person needs to see why the write was aborted.

    `file_count` and `row_count` are of everything that both sides touched, also where `files` and
    their rows are the first ones only. `row_count` is None where files decided.
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
    what: str = ""  # the sentence of the message that tells what happened
    row_level: str = ""  # why rows could not resolve the conflict, where they were compared
    decision: Decision | None = None  # None: not recorded

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
