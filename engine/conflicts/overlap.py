"""A winning commit compared with this transaction: everything that a check may examine.

The changes of both sides are compared by path. As in delta-spark 4.1 and later, a table may request
(`RESOLUTION_PROPERTY`) that a commit which only enables features does not stop running writers.
Their staged files stay valid: deletion vectors are optional, each attempt chooses its own in-commit
timestamp, and checkpoints are written after the commit.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile, FileKey, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.conflict_facts import SharedFile, Subclass
from engine.conflicts.candidates import counts_appends
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.protocol.features import list_supported_features
from engine.protocol.properties import TableProperties
from engine.vocabulary import Changes, Removes, operation_named

_COPIED = ("numCopiedRows", "numTargetRowsCopied", "num_copied_rows", "num_target_rows_copied")
MERGE_CLAUSES = ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")

UNTRACED = "the winning commit rewrote rows in a way that cannot be traced"
"""The note of evidence that leaves files of the winning commit unresolved."""

_FEATURES = frozenset({"deletionVectors", "inCommitTimestamp", "v2Checkpoint"})


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


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path in one commit.

    With only `add` it is a new file (or one added again), with only `remove` a removed one, with
    both a file with another deletion vector.
    """

    path: str
    remove: RemoveFile | None = None
    add: AddFile | None = None


def changes_of(actions: Iterable[Action]) -> dict[str, PathChange]:
    """Return the file actions of a commit by path."""
    removes: dict[str, RemoveFile] = {}
    adds: dict[str, AddFile] = {}
    for action in actions:
        if isinstance(action, RemoveFile):
            removes[action.path] = action
        elif isinstance(action, AddFile):
            adds[action.path] = action
    return {
        path: PathChange(path, removes.get(path), adds.get(path)) for path in {**removes, **adds}
    }


def is_rearrangement(winner: WinningCommit) -> bool:
    """Return whether a winning commit only moved rows, as OPTIMIZE and REORG purge do."""
    return bool(winner.removes) and not winner.changes_data and not replaces_state(winner)


def may_hold_copies(winner: WinningCommit) -> bool:
    """Return whether a winning commit's new files may hold rows copied from its removed files.

    A write without deletion vectors copies the unchanged rows of a file. Then neither its new files
    nor its removed ones show the changed rows. A commit that removes no whole file, or records zero
    copied rows, holds no copies.
    """
    changes = changes_of(winner.actions).values()
    removed = any(change.add is None for change in changes)
    added = any(change.remove is None for change in changes)
    if not (removed and added):
        return False
    metrics = winner.info.operation_metrics or {}
    copied = next((str(metrics[name]) for name in _COPIED if name in metrics), None)
    if copied is None:
        operation = operation_named(winner.operation, winner.info.operation_parameters)
        return operation.removes is Removes.ROWS or not operation.statement.inserts
    return copied != "0"


def both_delete(current: CurrentTransaction, winner: WinningCommit) -> bool:
    """Return whether both sides only delete rows, even the same ones.

    Then the order of the history is serial even for shared rows: this transaction finds them gone.
    It must delete every row its conditions match and read nothing else. Rewritten files and staged
    change files contain older rows and do not qualify.
    """
    reads = current.reads
    if current.operation != "DELETE" or current.rows.command_obstacle or current.read_entirely:
        return False
    if not reads or current.read_whole_table or not all(r.every_match_changes for r in reads):
        return False
    if any(isinstance(action, AddCDCFile) for action in current.actions):
        return False
    only_takes = _only_takes_rows(current.actions) and _only_takes_rows(winner.actions)
    info = winner.info
    deletes_only = records_deletes_only(info.operation, info.operation_parameters)
    return only_takes and bool(winner.removes) and deletes_only


def find_fully_deleted(current: CurrentTransaction, winner: WinningCommit) -> frozenset[str]:
    """Return the paths of the files a winning DELETE emptied for this DELETE."""
    if not both_delete(current, winner):
        return frozenset()
    return winner.removed_paths - {add.path for add in winner.adds}


def _only_takes_rows(actions: Iterable[Action]) -> bool:
    """Return whether each added file replaces the same file."""
    return all(change.remove is not None for change in changes_of(actions).values())


def records_deletes_only(operation: str | None, parameters: Mapping[str, Any] | None) -> bool:
    """Return whether a commit was a DELETE, or a MERGE with only DELETE clauses."""
    if operation != "MERGE":
        return operation == "DELETE"
    recorded = [(parameters or {}).get(name, "[]") for name in MERGE_CLAUSES]
    try:
        clauses = [clause for text in recorded for clause in json.loads(text)]
        return bool(clauses) and all(clause["actionType"] == "delete" for clause in clauses)
    except (ValueError, TypeError, KeyError):
        return False


def rearranges(current: CurrentTransaction) -> bool:
    """Return whether this transaction only moves rows and changes none."""
    return current.level is IsolationLevel.SNAPSHOT and bool(current.removes)


def replaces_state(winner: WinningCommit) -> bool:
    """Return whether it was a RESTORE, CLONE or REPLACE, whose changes are never traced."""
    return operation_named(winner.operation).replaces_state


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


_ENABLES: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "delta.enableDeletionVectors": ("deletionVectors", _is_true),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp", _is_true),
    "delta.checkpointPolicy": ("v2Checkpoint", lambda value: value.strip().lower() == "v2"),
}
"""The properties that may change, the feature of each, and the values that enable it."""
_SET_ONCE = frozenset(
    {"delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"}
)
"""Properties set when in-commit timestamps are enabled: they may be added but not changed."""


def find_enabled_features(current: CurrentTransaction, winner: WinningCommit) -> tuple[str, ...]:
    """Return the features a winning commit only enabled; empty if it did anything else.

    Also empty if the table does not request this, or if this transaction is more than a write of
    rows.
    """
    metadata, protocol = current.metadata, current.protocol
    if metadata is None or protocol is None or current.changes_terms:
        return ()
    writes_rows = operation_named(current.operation).changes == Changes.ROWS
    if not writes_rows or not _is_asked_for(metadata):
        return ()
    if any(not isinstance(action, CommitInfo | Metadata | Protocol) for action in winner.actions):
        return ()
    supported = list_supported_features(winner.protocol or protocol)
    added = supported - list_supported_features(protocol)
    dropped = list_supported_features(protocol) - supported
    enabled = _find_enabled(metadata, winner.metadata or metadata)
    if dropped or not added <= _FEATURES or enabled is None or not enabled <= supported:
        return ()
    return tuple(sorted(added | enabled))


def _is_asked_for(metadata: Metadata) -> bool:
    return TableProperties.parse(metadata.configuration).resolves_feature_enablement


def _find_enabled(before: Metadata, after: Metadata) -> frozenset[str] | None:
    """Return the features enabled by new metadata; None if it changes anything else."""
    old, new = before.configuration, after.configuration
    if msgspec.structs.replace(after, configuration=old) != before or old.keys() - new.keys():
        return None
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    enabled = set()
    for key, value in changed.items():
        if key in _SET_ONCE and key not in old:
            continue
        feature, enables = _ENABLES.get(key, ("", _is_true))
        if not feature or not enables(value):
            return None
        enabled.add(feature)
    return frozenset(enabled)
