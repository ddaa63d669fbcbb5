"""Duplicate files in a checkpoint, as left by crashed writers or joined parts.

A checkpoint is a reconciled state with each file once (protocol: Checkpoints). A duplicate would
duplicate its rows. If its two entries differ, the state contradicts itself.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import MalformedLogError
from engine.log.file_table import adds_of

_WORD = 8
_LONGEST = 512


def distinct_files(files: pa.Table, tombstones: pa.Table, path: str, remedy: str) -> pa.Table:
    """Return the live files of a state, each once.

    Args:
        files: the rows of its adds.
        tombstones: the rows of its removes.
        path: the log file with the state.
        remedy: the remedy for a contradiction.

    Raises:
        MalformedLogError: a file is both live and removed, or two rows of it differ.
    """
    ordered = _sort_fingerprints(files.column("path"))
    once = files if _are_distinct(files.column("path"), ordered) else last_of_each(files)
    contradicted = _path_that_differs(files) if once.num_rows < files.num_rows else None
    contradicted = contradicted or _path_in_both(once, tombstones, ordered)
    if contradicted is not None:
        msg = f"{path} contradicts itself: it says two things of the file {contradicted[:500]}."
        raise MalformedLogError(msg, remedy)
    return once


def last_of_each(rows: pa.Table) -> pa.Table:
    """Return the rows, keeping only the last of each (`path`, `dv_id`)."""
    last = _last_places(rows)
    return rows if len(last) == rows.num_rows else rows.take(pa.array(sorted(last.values())))


def _path_in_both(
    files: pa.Table, tombstones: pa.Table, ordered: NDArray[np.uint64] | None
) -> str | None:
    """Find a path in both; restated files share it with their tombstones, but not their vectors."""
    removed = tombstones
    fingerprints = _fingerprints_of(tombstones.column("path"))
    if ordered is not None and fingerprints is not None:
        shared = _intersect_sorted(ordered, np.sort(fingerprints))
        if not len(shared):
            return None
        removed = tombstones.filter(pa.array(np.isin(fingerprints, shared)))
    live = files.filter(pc.is_in(files.column("path"), value_set=removed.column("path")))
    both = set(_keys(removed)).intersection(_keys(live))
    return min(path for path, _ in both) if both else None


def _path_that_differs(files: pa.Table) -> str | None:
    last = _last_places(files)
    repeats = [(row, last[key]) for row, key in enumerate(_keys(files)) if last[key] != row]
    earlier = files.take(pa.array([row for row, _ in repeats], pa.int64()))
    later = files.take(pa.array([row for _, row in repeats], pa.int64()))
    if earlier.equals(later):
        return None
    pairs = zip(adds_of(earlier), adds_of(later), strict=True)
    return next((one.path for one, other in pairs if one != other), None)


def _keys(rows: pa.Table) -> Iterator[tuple[str, str | None]]:
    paths, vectors = rows.column("path").to_pylist(), rows.column("dv_id").to_pylist()
    return zip(paths, vectors, strict=True)


def _last_places(rows: pa.Table) -> dict[tuple[str, str | None], int]:
    return {key: row for row, key in enumerate(_keys(rows))}


def _are_distinct(paths: pa.ChunkedArray, ordered: NDArray[np.uint64] | None) -> bool:
    """Return whether all paths are distinct; True is proof. Fingerprints compare fastest."""
    if ordered is not None:
        return not bool(np.any(ordered[1:] == ordered[:-1]))
    return bool(pc.count_distinct(paths).as_py() == len(paths))


def _sort_fingerprints(paths: pa.ChunkedArray) -> NDArray[np.uint64] | None:
    fingerprints = _fingerprints_of(paths)
    return None if fingerprints is None else np.sort(fingerprints)


def _intersect_sorted(
    ordered: NDArray[np.uint64], others: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the numbers common to two sorted arrays."""
    places = np.searchsorted(ordered, others)
    inside = places < len(ordered)
    candidates = others[inside]
    shared: NDArray[np.uint64] = candidates[ordered[places[inside]] == candidates]
    return shared


def _fingerprints_of(paths: pa.ChunkedArray) -> NDArray[np.uint64] | None:
    parts = [_fingerprints(chunk) for chunk in paths.chunks if len(chunk)]
    mixed = [part for part in parts if part is not None]
    if len(mixed) < len(parts):
        return None
    return np.concatenate(mixed) if mixed else np.empty(0, np.uint64)


def _fingerprints(texts: pa.StringArray) -> NDArray[np.uint64] | None:
    """Hash each text, eight bytes at a time; return None if this does not pay off."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    longest = int(lengths.max())
    if texts.null_count or lengths.min() < _WORD or longest > _LONGEST:
        return None
    data = texts.buffers()[2]
    words = np.ndarray((data.size - _WORD + 1,), np.uint64, data, strides=(1,))
    mixed = lengths.astype(np.uint64)
    for place in range(0, longest, _WORD):
        word = words[starts + np.minimum(place, lengths - _WORD)]
        mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
