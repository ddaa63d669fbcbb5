"""Row-level concurrency: operations on different rows of one file do not conflict.

For a winning commit in conflict at file level, `resolve_by_rows` collects evidence: its added files
without rows this transaction should have read, and its removed rows this transaction neither
changed nor read. It decides nothing: the checks run again with this evidence. After an error files
decide, so nothing is ever guessed (SEMANTICS: row-level concurrency).

If one side only moved rows, the other side's changes follow them. Where the winning commit moved
them, this transaction's changed rows are looked up in the winning commit's row map and deleted in
their new files. Where this transaction moved them, rows the winning commit removed are looked up in
this transaction's own map and masked in its output.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import Subclass
from engine.conflicts.decide.rebase import (
    PendingVectors,
    build_remove,
    restage,
    restage_add,
    restate_remove,
)
from engine.conflicts.decide.row_access import NO_ROWS, BudgetSpentError, RowAccess, all_rows
from engine.conflicts.decide.row_map import RowMap, trace
from engine.conflicts.decide.row_pairs import compare_rows, find_own_changes, find_removed_rows
from engine.conflicts.decide.row_resolution import RestagedFile, RowResolution, union
from engine.conflicts.overlap import (
    Overlap,
    PathChange,
    RowEvidence,
    changes_of,
    is_rearrangement,
    rearranges,
    replaces_state,
)
from engine.conflicts.transaction_info import CurrentTransaction
from engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class RowLevelOutcome:
    """Row-level evidence on one winning commit, and this transaction rebased over it."""

    evidence: RowEvidence
    current: CurrentTransaction
    pending: PendingVectors
    row_count: int = 0
    gone_count: int = 0
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    how: str = ""


def row_fallback(overlap: Overlap) -> str | None:
    """Explain why only files can decide about this winning commit; None if rows can. Reads no file."""
    current = overlap.current
    if current.replaces_state:
        return f"{current.operation} replaces the whole table"
    if rearranges(current) or is_rearrangement(overlap.winner):
        return None if current.rows.traces_moves else "deletion vectors are not enabled"
    return current.rows.obstacle


def resolve_by_rows(
    overlap: Overlap, pending: PendingVectors, rows: RowAccess, own_map: Callable[[], RowMap]
) -> RowLevelOutcome:
    """Collect row-level evidence; `own_map` traces rows moved by this transaction."""
    reason = row_fallback(overlap)
    if reason is not None:
        return _keep_conflict(overlap, pending, RowEvidence(note=reason))
    out = RowResolution()
    try:
        if rearranges(overlap.current):
            carry_own_output(overlap, pending, own_map(), rows, out)
        elif is_rearrangement(overlap.winner):
            follow_rows(overlap, pending, rows, out)
        else:
            compare_rows(overlap, pending, rows, out)
    except BudgetSpentError as late:
        compared = tuple(out.compared)
        evidence = RowEvidence(
            subclass=Subclass.ALLOTTED_TIME_EXCEEDED,
            note=late.what,
            is_partial=True,
            compared=compared,
        )
        return _keep_conflict(overlap, pending, evidence)
    except EngineError as error:
        note = f"the rows could not be read: {error.what}"
        evidence = RowEvidence(note=note, is_partial=True, compared=tuple(out.compared))
        return _keep_conflict(overlap, pending, evidence)
    current, carried = restage(overlap.current, pending, out)
    how = ", ".join(sorted(out.means))
    return RowLevelOutcome(
        out.evidence(), current, carried, out.row_count, out.gone_count, out.rows, how
    )


def _keep_conflict(
    overlap: Overlap, pending: PendingVectors, evidence: RowEvidence
) -> RowLevelOutcome:
    return RowLevelOutcome(evidence, overlap.current, pending)


def follow_rows(
    overlap: Overlap, pending: PendingVectors, rows: RowAccess, out: RowResolution
) -> None:
    """Apply this transaction's changes to the files to which the winning commit moved the rows.

    Raises:
        EngineError: a file it had to read is unreadable.
    """
    ours, winner = changes_of(overlap.current.actions), overlap.winner
    row_map = trace(winner.removes, winner.adds, rows, ours.keys())
    arrivals: dict[str, BitMap64] = {}
    for remove in winner.removes:
        own = ours.get(remove.path)
        changed = _find_own_changes(own, remove, pending, rows)
        carried = None if changed is None else row_map.carry(remove.path, changed)
        if changed is None or carried is None:
            continue
        _gather(arrivals, carried)
        out.moved[remove.path] = frozenset(carried)
        if own is not None:
            out.restaged[remove.path] = RestagedFile()
        out.settle(remove.path, changed, row_map.how)
    for target in row_map.targets.values():
        out.clear(target, NO_ROWS, row_map.how)
        if arrivals.get(target.path):
            out.restaged[target.path] = _delete_more_rows(target, arrivals[target.path], rows)


def carry_own_output(
    overlap: Overlap, pending: PendingVectors, own_map: RowMap, rows: RowAccess, out: RowResolution
) -> None:
    """Mask the rows the winning commit removed from its sources in this transaction's output.

    Raises:
        EngineError: a file it had to read is unreadable.
    """
    current, theirs = overlap.current, changes_of(overlap.winner.actions)
    ours = changes_of(current.actions)
    masked: dict[str, BitMap64] = {}
    for change in theirs.values():
        own = ours.get(change.path)
        if own is None:  # a compaction depends only on the files it moves
            out.settle(change.path, NO_ROWS, own_map.how)
            continue
        carried = _locate_in_output(change, own, overlap, own_map, rows)
        if carried is None or not all(target in ours for target in carried):
            continue
        _gather(masked, carried)
        out.restaged[change.path] = RestagedFile(_still_removed(own, change.add))
        out.settle(change.path, union(carried.values()), own_map.how)
    for path, gone in masked.items():
        out.restaged[path] = _mask_rows(ours[path].add, gone, pending, rows)


def _find_own_changes(
    ours: PathChange | None, remove: RemoveFile, pending: PendingVectors, rows: RowAccess
) -> BitMap64 | None:
    """Return this transaction's changes in a file the winning commit removed; None if unknown."""
    if ours is None:
        return NO_ROWS
    same_file = ours.remove is not None and ours.remove.key == remove.key
    return find_own_changes(ours, pending, rows) if same_file else None


def _still_removed(ours: PathChange, latest: AddFile | None) -> RemoveFile | None:
    """Restate this transaction's `remove` for a source's latest state; None if it is gone."""
    return None if latest is None or ours.remove is None else restate_remove(ours.remove, latest)


def _gather(into: dict[str, BitMap64], parts: Mapping[str, BitMap64]) -> None:
    for path, moved in parts.items():
        into[path] = into.get(path, NO_ROWS) | moved


def _locate_in_output(
    theirs: PathChange, ours: PathChange, overlap: Overlap, own_map: RowMap, rows: RowAccess
) -> Mapping[str, BitMap64] | None:
    """Locate the winning commit's removed rows in this transaction's output; None if unknown."""
    if theirs.remove is None or ours.remove is None or replaces_state(overlap.winner):
        return None
    if ours.remove.key != theirs.remove.key:
        return None
    gone, brought_back = find_removed_rows(theirs, rows)
    carried = None if brought_back else own_map.carry(theirs.path, gone)
    return None if carried is None else {path: bits for path, bits in carried.items() if bits}


def _delete_more_rows(target: AddFile, deleted: BitMap64, rows: RowAccess) -> RestagedFile:
    """Delete more rows of a winning commit's file; remove the file if none is left."""
    vector = rows.vector(target.deletion_vector) | deleted
    remove = build_remove(target)
    count = rows.row_count(target.path)
    if all_rows(count) <= vector:
        return RestagedFile(remove)
    stats = f'{{"numRecords":{count}}}'
    return RestagedFile(remove, restage_add(target, stats, data_change=True), vector)


def _mask_rows(
    output: AddFile | None, gone: BitMap64, pending: PendingVectors, rows: RowAccess
) -> RestagedFile:
    """Mask deleted rows in a staged file; drop the file if none is left."""
    if output is None:
        return RestagedFile()
    updated = pending.vectors.get(output.path)
    vector = (rows.vector(output.deletion_vector) if updated is None else updated) | gone
    is_empty = all_rows(rows.row_count(output.path)) <= vector
    return RestagedFile() if is_empty else RestagedFile(add=output, vector=vector)
