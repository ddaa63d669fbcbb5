"""Row maps: the new positions of unchanged rows in rewritten files (SEMANTICS: row maps).

A map has two possible sources. An order-preserving compaction tags each `remove` with the source's
offset in its target; it is trusted only if the sources tile the target, except for rows deleted
there. With row tracking, the row ids of both sides are compared; they are trusted only if both
sides have the same live rows. Everything else is not traced, and files decide.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from pyroaring import BitMap64

from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile, RemoveFile
from engine.conflicts.decide.rebase import file_of
from engine.conflicts.decide.row_access import Positions, RowAccess, all_rows, live_rows, positions


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Rows of one source in ascending order, and their rows in `target`."""

    target: str
    source_rows: Positions
    target_rows: Positions


@dataclass(frozen=True, slots=True)
class RowMap:
    """The traced part of a rearrangement: source paths, and fully known target files."""

    segments: Mapping[str, tuple[MovedRows, ...]] = field(default_factory=dict)
    targets: Mapping[str, AddFile] = field(default_factory=dict)
    how: str = "row map"

    def carry(self, source: str, rows: BitMap64) -> dict[str, BitMap64] | None:
        """Map rows to their new positions by target; return None unless every row has one."""
        asked = positions(rows)
        carried: dict[str, BitMap64] = {}
        hits = 0
        for segment in self.segments.get(source, ()):
            places = np.searchsorted(segment.source_rows, asked)
            inside = places < len(segment.source_rows)
            hit = inside.copy()
            hit[inside] = segment.source_rows[places[inside]] == asked[inside]
            hits += int(hit.sum())
            carried[segment.target] = BitMap64(segment.target_rows[places[hit]].tolist())
        return carried if hits == len(asked) and source in self.segments else None


def trace(
    removes: Sequence[RemoveFile],
    adds: Sequence[AddFile],
    rows: RowAccess,
    asked: Collection[str] | None = None,
) -> RowMap:
    """Return the row map of one rearrangement: by its tags, else by row ids, else empty.

    The tags of the sources in `asked` (None: all) are checked against the sources' footers.

    Raises:
        EngineError: a file it had to read is unreadable.
    """
    tagged = _map_by_tags(removes, adds, rows, asked)
    if len(tagged.targets) == len(adds) and tagged.targets:
        return tagged
    return _map_by_row_ids(removes, adds, rows) or tagged


def _map_by_tags(
    removes: Sequence[RemoveFile],
    adds: Sequence[AddFile],
    rows: RowAccess,
    asked: Collection[str] | None,
) -> RowMap:
    by_target: dict[str, list[tuple[CompactionInfo, RemoveFile]]] = {}
    for remove in removes:
        info = CompactionInfo.from_remove(remove)
        if info is not None:
            by_target.setdefault(info.target, []).append((info, remove))
    segments: dict[str, tuple[MovedRows, ...]] = {
        removed.path: () for removed in removes if _is_empty(removed, rows)
    }
    targets: dict[str, AddFile] = {}
    for add in adds:
        sources = sorted(by_target.get(add.path, ()), key=lambda piece: piece[0].offset)
        if _tiles(sources, add, rows, asked):
            targets[add.path] = add
            for info, remove in sources:
                segments[remove.path] = (_segment(info, rows),)
    return RowMap(segments, targets)


def _is_empty(removed: RemoveFile, rows: RowAccess) -> bool:
    """Return whether no row was live in a file; only files with a count of 0 are read."""
    if live_rows(removed) != 0:
        return False
    return all_rows(rows.row_count(removed.path)) <= rows.vector(removed.deletion_vector)


def _tiles(
    sources: Sequence[tuple[CompactionInfo, RemoveFile]],
    target: AddFile,
    rows: RowAccess,
    asked: Collection[str] | None,
) -> bool:
    """Return whether the live rows of the sources, end to end, are exactly the target's.

    A source removed before the compaction landed is no longer named; all its rows are deleted in
    the target, so a gap counts as filled if the target's vector covers it.
    """
    reached = 0
    gaps = BitMap64()
    for info, remove in sources:
        if info.offset < reached or info.live_count < 0:
            return False
        is_asked = asked is None or remove.path in asked
        if is_asked and rows.row_count(remove.path) != info.row_count:
            return False
        gaps |= _rows_between(reached, info.offset)
        reached = info.offset + info.live_count
    if not sources:
        return False
    count = rows.row_count(target.path)
    if count < reached:
        return False
    gaps |= _rows_between(reached, count)
    return not gaps or gaps <= rows.vector(target.deletion_vector)


def _rows_between(first: int, end: int) -> BitMap64:
    rows = BitMap64()
    if first < end:
        rows.add_range(first, end)
    return rows


def _segment(info: CompactionInfo, rows: RowAccess) -> MovedRows:
    """Map source row i, the k-th live row under the source's vector, to target row `offset + k`."""
    live = positions(all_rows(info.row_count) - rows.vector(info.deletion_vector))
    return MovedRows(info.target, live, np.arange(info.offset, info.offset + len(live)))


def _map_by_row_ids(
    removes: Sequence[RemoveFile], adds: Sequence[AddFile], rows: RowAccess
) -> RowMap | None:
    """Build the map by row ids; return None unless the live rows before and after are the same."""
    before = _number_rows((file_of(remove) for remove in removes), rows)
    after = _number_rows(adds, rows)
    if before is None or after is None:
        return None
    paths, path_of, row_of, ids = before
    new_paths, new_path_of, new_row_of, new_ids = after
    order = np.argsort(new_ids, kind="stable")
    if not np.array_equal(np.sort(ids), new_ids[order]) or len(np.unique(ids)) != len(ids):
        return None
    places = order[np.searchsorted(new_ids[order], ids)]
    segments: dict[str, tuple[MovedRows, ...]] = {}
    for number, path in enumerate(paths):
        own = path_of == number
        parts = []
        for target in np.unique(new_path_of[places[own]]):
            chosen = own & (new_path_of[places] == target)
            parts.append(MovedRows(new_paths[target], row_of[chosen], new_row_of[places[chosen]]))
        segments[path] = tuple(parts)
    return RowMap(segments, {add.path: add for add in adds}, "row ids")


def _number_rows(
    files: Iterable[AddFile], rows: RowAccess
) -> tuple[list[str], Positions, Positions, Positions] | None:
    """Return paths and, for every live row, the number of its path, its position and its id."""
    paths: list[str] = []
    parts: list[tuple[Positions, Positions, Positions]] = []
    for number, file in enumerate(files):
        ids = rows.row_ids(file)
        if ids is None:
            return None
        live = positions(all_rows(len(ids)) - rows.vector(file.deletion_vector))
        paths.append(file.path)
        parts.append((np.full(len(live), number), live, ids[live]))
    if not parts:
        return None
    path_of, row_of, row_ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return paths, path_of, row_of, row_ids
