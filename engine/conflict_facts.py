"""What a conflict is about: both sides, the files they met at, and the ways out, as plain values.

`engine.errors` raises them, with these names at hand there too.
"""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to avoid the conflict next time, and why it would have helped."""

    action: str
    reason: str
    kind: str = ""  # one word for what it changes, by which a page knows where it is done


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """A file both sides met at: which rule saw it, its partition, its rows where known."""

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    role: str = ""  # "added", "removed", "rewritten": what the winner did to it
    rows: tuple[int, ...] = ()  # physical positions in the file, the first 100
    row_count: int | None = None


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """One of the two transactions. `version` is None for the one that lost."""

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
    """What the transaction that lost, or gave way, had read."""

    conditions: int = 0
    whole_table: bool = False
    files: int = 0
    obstacle: str | None = None  # why files alone decide; None: rows can


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file whose rows both sides were asked about, in numbers; one of them with positions too.

    The counts: rows that current changed (`did` "changed") or read ("read"), rows that the winner
    removed or added, rows that were deleted before either, and rows that are both sides'. The
    positions are physical, in ascending order, at most 200 of each, spread evenly over all.
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


@dataclass(frozen=True, slots=True)
class WinnerVerdicts:
    """What each check said of one winner, by the check's name.

    "none": the winner holds nothing that it asks about; "exempt": a blind append that current may be
    ordered before; "pass": files told the two apart; "rows", "row map": rows did; "conflict"; "not
    reached".
    """

    version: int
    operation: str
    verdicts: dict[str, str]
    how: str = ""
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """How the two sides were held against each other. Every list is bounded, every count is not.

    `winners` are the last ones that were checked, in order; `winners_before` came before them.
    `duration_ms` is what telling rows apart took for this winner, out of the `budget_ms` that one
    commit has; `files_opened` were read for it. `order_column` is what the bounds of the files are
    of, and `table_files` how many files the table had when it was read.
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
    """A conflict with both sides: everything a person needs to see why the write lost.

    `rule` names the check of `engine.conflicts.checker.CHECKS` that fired.
    """

    table: str
    read_version: int
    attempted_version: int
    rule: str
    subclass: str
    current: ConflictSide
    winner: ConflictSide
    files: tuple[ConflictFile, ...] = ()
    file_count: int = 0
    partitions: tuple[str, ...] = ()
    can_retry: bool = True
    remedies: tuple[Remedy, ...] = ()
    what: str = ""  # the sentence of the message that tells what happened
    row_level: str = ""  # why rows could not tell the two apart, where they were asked
    decision: Decision | None = None  # None: not recorded

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
