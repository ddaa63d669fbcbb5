"""The changes of a winning commit to files, and this transaction's actions for them, by path."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.vocabulary import Removes, operation_named

_COPIED = ("numCopiedRows", "numTargetRowsCopied", "num_copied_rows", "num_target_rows_copied")
MERGE_CLAUSES = ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")


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
