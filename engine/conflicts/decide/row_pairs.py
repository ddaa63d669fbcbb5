r"""Resolution of two commands that both change data, row by row.

With `base` the deletion vector of a file when this transaction read it, `dv_cur` the one it stages
and `dv_win` the winning commit's: this transaction changes `dv_cur \\ base`, the winning commit
removed `dv_win \\ base` and, if it restored a version, brought `base \\ dv_win` back. The two pass
if they changed different rows, if no new row matches this transaction's reads, and if it read none
of the removed rows. Two DELETEs may share rows: the second leaves them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from engine.actions.files import AddFile, RemoveFile
from engine.conflicts.candidates import Candidate, find_matching_reads, list_candidates
from engine.conflicts.decide.rebase import PendingVectors, file_of, restage_add, restate_remove
from engine.conflicts.decide.row_access import NO_ROWS, RowAccess, all_rows
from engine.conflicts.decide.row_resolution import ComparedFile, RestagedFile, RowResolution, union
from engine.conflicts.overlap import Overlap, PathChange, both_delete, changes_of, may_hold_copies
from engine.conflicts.transaction_info import CurrentTransaction

_MERGED = "deletion vectors merged"
LEFT_OUT = "rows that both delete are counted once"
_READ = "rows read"


def compare_rows(
    overlap: Overlap, pending: PendingVectors, rows: RowAccess, out: RowResolution
) -> None:
    """Resolve by rows between this transaction and a winning commit that both change data.

    Raises:
        EngineError: a file it had to read is unreadable.
    """
    current, winner = overlap.current, overlap.winner
    theirs, ours = changes_of(winner.actions), changes_of(current.actions)
    reads_all, out.may_hold_copies = current.read_whole_table, may_hold_copies(winner)
    share_rows = both_delete(current, winner)
    for remove in winner.removes:
        if remove.path in overlap.removed_for_good:
            continue
        if not (reads_all or remove.path in ours or remove.path in current.read_files):
            continue
        change = theirs[remove.path]
        taken = ChangedFileRows(
            remove, change.add, winner.version - 1, *_compare_vectors(change, rows)
        )
        if remove.path in ours:
            own = ours[remove.path]
            if share_rows and not taken.brought_back:
                _delete_what_is_left(taken, own, pending, rows, out)
            else:
                _settle_changed(current, taken, own, (pending, rows), out)
        else:
            _settle_read(current, taken, rows, out)
    for candidate in list_candidates(current, winner, overlap.exempted):
        own_commit = candidate.version == winner.version
        _clear_added(current, candidate, theirs if own_commit else {}, rows, out)


def find_own_changes(ours: PathChange, pending: PendingVectors, rows: RowAccess) -> BitMap64 | None:
    """Return the rows of a file this transaction deletes or rewrites; None if unknown."""
    if ours.remove is None:
        return None
    base = rows.vector(ours.remove.deletion_vector)
    if ours.add is None:
        return all_rows(rows.row_count(ours.path)) - base
    staged = pending.vectors.get(ours.path)
    staged = rows.vector(ours.add.deletion_vector) if staged is None else staged
    return None if base - staged else staged - base


def find_removed_rows(change: PathChange, rows: RowAccess) -> tuple[BitMap64, BitMap64]:
    """Return the rows a commit deleted from a file, and those it restored."""
    gone, brought_back, _ = _compare_vectors(change, rows)
    return gone, brought_back


@dataclass(frozen=True, slots=True)
class ChangedFileRows:
    """A file with rows deleted by the winning commit: its `remove`, its latest state, the rows.

    `before` are the rows already deleted before the winning commit; `version` is the one before the
    winning commit's, in which all others are live.
    """

    remove: RemoveFile
    latest: AddFile | None
    version: int
    gone: BitMap64
    brought_back: BitMap64
    before: BitMap64


def _compare_vectors(change: PathChange, rows: RowAccess) -> tuple[BitMap64, BitMap64, BitMap64]:
    """Return the rows a commit deleted, those it restored, and those deleted before it."""
    if change.remove is None:
        return NO_ROWS, NO_ROWS, NO_ROWS
    before = rows.vector(change.remove.deletion_vector)
    if change.add is None:
        return all_rows(rows.row_count(change.path)) - before, NO_ROWS, before
    after = rows.vector(change.add.deletion_vector)
    return after - before, before - after, before


def _settle_read(
    current: CurrentTransaction, taken: ChangedFileRows, rows: RowAccess, out: RowResolution
) -> None:
    """Settle a file this transaction read and did not touch."""
    read = _read_among(current, taken, rows)
    compared = ComparedFile(
        taken.remove, taken.version, read, taken.gone, read, taken.before, read=True
    )
    out.compare(compared)
    if read:
        out.conflict(taken.remove.path, read, is_whole_file=taken.latest is None)
    else:
        out.settle(taken.remove.path, taken.gone, _READ)


def _settle_changed(
    current: CurrentTransaction,
    taken: ChangedFileRows,
    ours: PathChange,
    io: tuple[PendingVectors, RowAccess],
    out: RowResolution,
) -> None:
    """Settle a file both sides change: different rows, or a conflict."""
    pending, rows = io
    if ours.remove is None or ours.remove.key != taken.remove.key:
        return
    changed = find_own_changes(ours, pending, rows)
    if changed is None:
        return
    shared = taken.gone & changed or _read_among(current, taken, rows)
    compared = ComparedFile(taken.remove, taken.version, changed, taken.gone, shared, taken.before)
    out.compare(compared)
    if shared:
        out.conflict(ours.path, shared, is_whole_file=taken.latest is None)
    elif taken.latest is not None and (ours.add is not None or not taken.brought_back):
        out.restaged[ours.path] = _restage_change(
            ours.remove, ours.add, taken.latest, changed, rows
        )
        out.settle(ours.path, taken.gone | changed, _MERGED)


def _delete_what_is_left(
    taken: ChangedFileRows,
    ours: PathChange,
    pending: PendingVectors,
    rows: RowAccess,
    out: RowResolution,
) -> None:
    """Stage this DELETE's rows of a file without the rows the winning DELETE already deleted."""
    if ours.remove is None or ours.remove.key != taken.remove.key or taken.latest is None:
        return
    changed = find_own_changes(ours, pending, rows)
    if changed is None:
        return
    shared, left = taken.gone & changed, changed - taken.gone
    out.compare(
        ComparedFile(taken.remove, taken.version, changed, taken.gone, shared, taken.before)
    )
    out.gone_count += len(shared)
    out.restaged[ours.path] = (
        _restage_change(ours.remove, ours.add, taken.latest, left, rows) if left else RestagedFile()
    )
    out.settle(ours.path, taken.gone | changed, LEFT_OUT if shared else _MERGED)


def _restage_change(
    remove: RemoveFile, add: AddFile | None, latest: AddFile, changed: BitMap64, rows: RowAccess
) -> RestagedFile:
    """Restage this transaction's change of a file on top of the winning commit's change."""
    if add is None:
        return RestagedFile(restate_remove(remove, latest))
    vector = rows.vector(latest.deletion_vector) | changed
    staged = restage_add(latest, add.stats, data_change=add.data_change)
    return RestagedFile(restate_remove(remove, latest), staged, vector)


def _read_among(current: CurrentTransaction, taken: ChangedFileRows, rows: RowAccess) -> BitMap64:
    """Return the deleted rows this transaction read without changing them."""
    path, gone = taken.remove.path, taken.gone
    if not gone or current.read_whole_table or path in current.read_entirely:
        return gone
    file = taken.latest or file_of(taken.remove)
    reads = [predicate for predicate in current.reads if not predicate.every_match_changes]
    return union(rows.select_rows(read, file, gone) for read in reads)


def _clear_added(
    current: CurrentTransaction,
    candidate: Candidate,
    theirs: Mapping[str, PathChange],
    rows: RowAccess,
    out: RowResolution,
) -> None:
    """Clear an added file by statistics, else by reading its rows."""
    add = candidate.add
    reads = find_matching_reads(current, add)
    if not reads and not current.read_whole_table:
        out.clear(add, NO_ROWS, _READ)
        return
    change = theirs.get(add.path)
    new = _new_rows(add, change, rows)
    matched = union(rows.select_rows(read, add, new) for read in reads)
    if new:
        out.compare(ComparedFile(add, candidate.version, matched, new, matched, read=True))
    if matched:
        out.conflict(add.path, matched, is_whole_file=change is not None and change.remove is None)
    elif not (new and current.read_whole_table):
        out.clear(add, new, _READ)


def _new_rows(add: AddFile, change: PathChange | None, rows: RowAccess) -> BitMap64:
    """Return the new rows of a file: all live ones, or the restored ones of an existing file."""
    if change is not None and change.remove is not None:
        return find_removed_rows(change, rows)[1]
    return all_rows(rows.row_count(add.path)) - rows.vector(add.deletion_vector)
