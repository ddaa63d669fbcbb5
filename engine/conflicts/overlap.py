"""One winning commit held against this transaction: everything a check may examine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from engine.actions.files import FileKey, RemoveFile
from engine.conflict_facts import SharedFile, Subclass
from engine.conflicts.candidates import counts_appends
from engine.conflicts.feature_enablement import find_enabled_features
from engine.conflicts.footprint import find_fully_deleted
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.vocabulary import operation_named

UNTRACED = "the winning commit rewrote rows in a way that cannot be traced"
"""The note of evidence that leaves files of the winning commit unresolved."""


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """The rows of one file touched by both sides: the first positions, and their number."""

    first: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class RowEvidence:
    """Row-level proof about one winning commit's files.

    `cleared_adds` hold no row this transaction should have read: their rows moved there unchanged,
    or were tested. `resolved_removes` are paths whose removed rows this transaction neither changed
    nor read. `matched_rows` are the physical rows, by path, that did match: the conflict.
    `subclass` and `note` say why the rest stayed unresolved; with `is_partial`, because time or the
    store ended the comparison. `compared` lists the files read, for display; no check uses it.
    """

    cleared_adds: frozenset[FileKey] = frozenset()
    resolved_removes: frozenset[str] = frozenset()
    matched_rows: Mapping[str, MatchedRows] = field(default_factory=dict)
    subclass: Subclass | None = None
    note: str = ""
    is_partial: bool = False
    compared: tuple[SharedFile, ...] = ()


FILES_ALONE = RowEvidence()
"""No evidence: files decide."""


@dataclass(frozen=True)
class Overlap:
    """This transaction, rebased over every earlier winning commit, and this winning commit.

    `exempted` are the earlier blind appends this transaction may still be ordered before.
    `attempted_version` is the version this transaction tried to commit. With `heeds_every_feature`,
    a commit that only enables features counts like any other change.
    """

    current: CurrentTransaction
    winner: WinningCommit
    exempted: tuple[WinningCommit, ...] = ()
    evidence: RowEvidence = FILES_ALONE
    attempted_version: int | None = None
    heeds_every_feature: bool = False

    @property
    def both_create(self) -> bool:
        """Whether both created the table: this transaction found no version."""
        return self.current.read_version < 0

    @property
    def both_replace(self) -> bool:
        """Whether both put another table in the place of this one."""
        sides = (self.current.operation, self.winner.operation)
        return all(operation_named(name).replaces_table for name in sides)

    @property
    def level_decides(self) -> bool:
        """Whether the winning commit, a blind append, counts only at this transaction's level."""
        current = self.current
        if not self.winner.is_blind_append or current.replaces_state:
            return False
        level, changes = current.level, current.changes_terms
        relaxed = IsolationLevel.WRITE_SERIALIZABLE
        return counts_appends(level) and not counts_appends(relaxed, changes_terms=changes)

    @cached_property
    def enabled_features(self) -> tuple[str, ...]:
        """Return the features that the winning commit only enabled, and that need not be heeded."""
        return () if self.heeds_every_feature else find_enabled_features(self.current, self.winner)

    @cached_property
    def removed_for_good(self) -> frozenset[str]:
        """The files removed whole by a winning DELETE, which do not concern this DELETE."""
        return find_fully_deleted(self.current, self.winner)

    @cached_property
    def unresolved_removes(self) -> tuple[RemoveFile, ...]:
        """The winning commit's removes of concern to this transaction, not resolved by rows."""
        settled = self.evidence.resolved_removes | self.removed_for_good
        return tuple(remove for remove in self.winner.removes if remove.path not in settled)
