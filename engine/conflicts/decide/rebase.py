"""Rebase of this transaction over a winning commit without conflict.

Checks never change anything. The rebase follows once all of them have passed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile, tombstone
from engine.actions.statistics import add_row_count, loosen_bounds
from engine.conflicts.decide.row_access import physical_rows
from engine.conflicts.decide.row_resolution import RowResolution
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """Deletion vectors of staged files, by path: rows decided, bytes not yet written."""

    vectors: Mapping[str, BitMap64] = field(default_factory=dict)


NOTHING_PENDING = PendingVectors()


def restage(
    current: CurrentTransaction, pending: PendingVectors, row_resolution: RowResolution
) -> tuple[CurrentTransaction, PendingVectors]:
    """Restage this transaction on the state after a winning commit resolved by rows."""
    anew = row_resolution.restaged
    kept = tuple(
        action
        for action in current.actions
        if not (isinstance(action, AddFile | RemoveFile) and action.path in anew)
    )
    fresh = (file for restaged in anew.values() for file in (restaged.remove, restaged.add) if file)
    vectors = {path: rows for path, rows in pending.vectors.items() if path not in anew}
    vectors |= {
        path: restaged.vector for path, restaged in anew.items() if restaged.vector is not None
    }
    carried = current.restage(
        (*kept, *fresh),
        read_files=_follow_moves(current.read_files, row_resolution.moved),
        read_entirely=_follow_moves(current.read_entirely, row_resolution.moved),
    )
    return carried, PendingVectors(vectors)


def drop_files(
    current: CurrentTransaction, pending: PendingVectors, paths: frozenset[str]
) -> tuple[CurrentTransaction, PendingVectors]:
    """Return this transaction without its changes of some files."""
    kept = tuple(
        action
        for action in current.actions
        if not (isinstance(action, AddFile | RemoveFile) and action.path in paths)
    )
    vectors = {path: rows for path, rows in pending.vectors.items() if path not in paths}
    return current.restage(kept), PendingVectors(vectors)


def _follow_moves(paths: frozenset[str], moved: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Add the new files of the moved rows of these paths."""
    return paths.union(*(moved[path] for path in paths & moved.keys()))


def restate_remove(remove: RemoveFile, latest: AddFile) -> RemoveFile:
    """Restate a `remove` for a file's latest `add`; its tags stay."""
    return msgspec.structs.replace(
        remove,
        deletion_vector=latest.deletion_vector,
        base_row_id=latest.base_row_id,
        default_row_commit_version=latest.default_row_commit_version,
    )


def build_remove(add: AddFile) -> RemoveFile:
    """Build the `remove` of a file, without its tags."""
    return msgspec.structs.replace(tombstone(add), tags=None)


def restage_add(latest: AddFile, stats: str | None, *, data_change: bool) -> AddFile:
    """Restage a file from its latest `add`.

    A deletion vector needs the number of rows: `stats` is used if the latest `add` lacks it.
    """
    counted = latest.stats if physical_rows(latest) is not None else stats
    return msgspec.structs.replace(latest, data_change=data_change, stats=counted)


def file_of(remove: RemoveFile) -> AddFile:
    """Build the file named by a `remove`, with the available facts."""
    return AddFile(
        path=remove.path,
        partition_values=remove.partition_values or {},
        size=remove.size or 0,
        modification_time=0,
        data_change=False,
        stats=remove.stats,
        deletion_vector=remove.deletion_vector,
        base_row_id=remove.base_row_id,
        default_row_commit_version=remove.default_row_commit_version,
    )


def refresh_transaction(current: CurrentTransaction, winner: WinningCommit) -> CurrentTransaction:
    """Update staged or removed files with row ids assigned by the winning commit.

    Row ids and statistics come from the latest `add`: a winning commit may have filled in either
    without touching a row.
    """
    latest = {add.path: add for add in winner.adds}
    staged = {add.path for add in current.adds} | {remove.path for remove in current.removes}
    if staged.isdisjoint(latest):
        return current
    actions = tuple(_refresh_action(action, latest) for action in current.actions)
    return current.restage(actions)


def _refresh_action(action: Action, latest: Mapping[str, AddFile]) -> Action:
    if isinstance(action, AddFile) and action.path in latest:
        return restore_identity(action, latest[action.path])
    if isinstance(action, RemoveFile) and action.path in latest:
        newest = latest[action.path]
        return restate_remove(action, newest) if newest.key == action.key else action
    return action


def restore_identity(add: AddFile, latest: AddFile) -> AddFile:
    """Restore a restaged file's row ids and statistics from its latest `add`, if it has any.

    Tight bounds become loose if more rows are deleted here. The staged number of rows stays: it may
    have been counted.
    """
    counted = physical_rows(add)
    stats = latest.stats or add.stats
    if counted is not None:
        stats = add_row_count(stats, counted)
    return msgspec.structs.replace(
        add,
        base_row_id=add.base_row_id if latest.base_row_id is None else latest.base_row_id,
        default_row_commit_version=add.default_row_commit_version
        if latest.default_row_commit_version is None
        else latest.default_row_commit_version,
        stats=stats if add.deletion_vector == latest.deletion_vector else loosen_bounds(stats),
    )
