"""Row counts of files as claimed by statistics: for display, not for decisions."""

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.statistics import read_claimed_rows


def num_records(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the `numRecords` of every row's statistics, null if there is none."""
    chunks = [
        pa.array([read_claimed_rows(text) for text in chunk.to_pylist()], pa.int64())
        for chunk in stats.chunks
    ]
    return pa.chunked_array(chunks, pa.int64())


def count_deleted_rows(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of rows that each file's deletion vector deletes."""
    return pc.fill_null(pc.struct_field(files.column("deletion_vector"), "cardinality"), 0)


def live_rows(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of live rows of each file, null without a plausible count."""
    left = pc.subtract(num_records(files.column("stats")), count_deleted_rows(files))
    return pc.if_else(pc.greater_equal(left, 0), left, None)
