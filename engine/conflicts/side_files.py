"""What each side did to the table's files, in numbers and in files that can be drawn."""

from collections.abc import Iterable, Mapping, Sequence

from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import SideChanges, SideFile, SideReads
from engine.conflicts.footprint import Change, changes_of
from engine.conflicts.layout import Layout
from engine.conflicts.row_counts import live_rows, physical_rows
from engine.conflicts.transaction_info import CurrentTransaction

FILES_DRAWN = 100
_NOTHING: Mapping[str, BitMap64] = {}


def changes_made(
    actions: Iterable[Action], vectors: Mapping[str, BitMap64] = _NOTHING
) -> SideChanges:
    """What the actions change and add. `vectors` are those that are not written yet, by path."""
    changes = changes_of(actions).values()
    there = [change for change in changes if change.remove is not None]
    added = [change.add for change in changes if change.remove is None and change.add is not None]
    return SideChanges(
        files_changed=len(there),
        files_masked=sum(side.add is not None for side in there),
        files_added=len(added),
        rows_changed=_total(rows_changed(side, vectors) for side in there),
        rows_added=_total(live_rows(add) for add in added),
    )


def rows_changed(change: Change, vectors: Mapping[str, BitMap64] = _NOTHING) -> int | None:
    """The rows of a file that a commit took from it; None where the log does not say.

    Only to be shown: a vector's own count is taken at its word.
    """
    before, after = change.remove, change.add
    if before is None:
        return 0
    if after is None:
        return live_rows(before)
    masked = vectors.get(change.path)
    gone = 0 if before.deletion_vector is None else before.deletion_vector.cardinality
    if masked is not None:
        return max(0, len(masked) - gone)
    now = 0 if after.deletion_vector is None else after.deletion_vector.cardinality
    return max(0, now - gone)


def files_touched(
    actions: Iterable[Action],
    layout: Layout,
    shared: Sequence[AddFile | RemoveFile] = (),
    vectors: Mapping[str, BitMap64] = _NOTHING,
    read_files: frozenset[str] = frozenset(),
) -> tuple[SideFile, ...]:
    """The files of one side in the order of the layout, at most `FILES_DRAWN`.

    `shared` are files that both sides touched: they are always among them, where the side does not
    change them as read, or as matched by a condition that never saw them.
    """
    changes = changes_of(actions)
    paths = {action.path for action in shared}
    touched = [_side_file(change, layout, vectors) for change in changes.values()]
    met = [side_file for side_file in touched if side_file.path in paths]
    met += [
        SideFile(file.path, _seen(file.path in read_files), *layout.bounds(file))
        for file in shared
        if file.path not in changes
    ]
    others = sorted(
        (side_file for side_file in touched if side_file.path not in paths), key=_in_order
    )
    left = max(0, FILES_DRAWN - len(met))
    return tuple(sorted([*met[:FILES_DRAWN], *spread(others, left)], key=_in_order))


def reads_made(current: CurrentTransaction) -> SideReads:
    """What a transaction had read."""
    return SideReads(
        conditions=len(current.reads),
        whole_table=current.read_whole_table,
        files=len(current.read_files),
        obstacle=current.rows.obstacle,
    )


def spread(values: Sequence[SideFile], count: int) -> Sequence[SideFile]:
    """At most so many of the values, evenly from all of them."""
    if len(values) <= count:
        return values
    return [values[place * len(values) // count] for place in range(count)]


def _side_file(change: Change, layout: Layout, vectors: Mapping[str, BitMap64]) -> SideFile:
    actions = [action for action in (change.add, change.remove) if action is not None]
    bounds = next((b for b in map(layout.bounds, actions) if b[0] is not None), (None, None))
    if change.remove is None:
        rows = physical_rows(actions[0]) if actions else None
        return SideFile(change.path, "added", *bounds, rows)
    return SideFile(change.path, "changed", *bounds, rows_changed(change, vectors))


def _seen(was_read: bool) -> str:
    return "read" if was_read else "matched"


def _in_order(file: SideFile) -> tuple[int, float, str, str]:
    """Numbers by size, then texts, then what has no bounds."""
    if file.low is None:
        return 2, 0.0, "", file.path
    try:
        return 0, float(file.low), "", file.path
    except ValueError:
        return 1, 0.0, file.low, file.path


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
