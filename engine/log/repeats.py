"""Files that a checkpoint names more than once: writers that crashed, or joined parts, left such.

A checkpoint is a reconciled state, in which every file stands once (protocol: Checkpoints). One that
stood twice would have its rows there twice.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_WORD = 8
_LONGEST = 512


def without_repeats(rows: pa.Table) -> pa.Table:
    """The rows, of each (`path`, `dv_id`) the last alone."""
    if rows.num_rows < 2 or _are_distinct(rows.column("path")):
        return rows
    keys = zip(rows.column("path").to_pylist(), rows.column("dv_id").to_pylist(), strict=True)
    last = {key: row for row, key in enumerate(keys)}
    return rows if len(last) == rows.num_rows else rows.take(pa.array(sorted(last.values())))


def _are_distinct(paths: pa.ChunkedArray) -> bool:
    """True is proof. Equal texts have equal fingerprints, which are far quicker to compare."""
    parts = [_fingerprints(each) for each in paths.chunks if len(each)]
    known = [each for each in parts if each is not None]
    if len(known) == len(parts):
        ordered = np.sort(np.concatenate(known))
        return not bool(np.any(ordered[1:] == ordered[:-1]))
    return bool(pc.count_distinct(paths).as_py() == len(paths))


def _fingerprints(texts: pa.StringArray) -> NDArray[np.uint64] | None:
    """A number for each text, mixed of its bytes eight at a time; None where that does not pay."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    longest = int(lengths.max())
    if texts.null_count or lengths.min() < _WORD or longest > _LONGEST:
        return None
    data = texts.buffers()[2]
    words = np.ndarray((data.size - _WORD + 1,), np.uint64, data, strides=(1,))
    mixed = lengths.astype(np.uint64)
    for place in range(0, longest, _WORD):
        found = words[starts + np.minimum(place, lengths - _WORD)]
        mixed = (mixed ^ found) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
