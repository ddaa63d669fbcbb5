"""Row counts of files as claimed by statistics: for display, not for decisions."""

import pyarrow as pa

from engine.actions.statistics import read_claimed_rows


def num_records(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the `numRecords` of every row's statistics, null if there is none."""
    chunks = [
        pa.array([read_claimed_rows(text) for text in chunk.to_pylist()], pa.int64())
        for chunk in stats.chunks
    ]
    return pa.chunked_array(chunks, pa.int64())
