"""A few rows of one file by their positions, read without Spark."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import DataFileError
from engine.snapshot.reader import ROW_INDEX, iter_file
from engine.snapshot.snapshot import Snapshot


def read_rows_at(
    snapshot: Snapshot,
    path: str,
    positions: Collection[int],
    columns: Sequence[str],
    *,
    batch_rows: int = 65_536,
) -> pa.Table:
    """The live rows at these physical positions of a live file, with `__row_index`, in order.

    Positions that a deletion vector deletes, or that the file does not have, are left out. The
    file is read up to the last position wanted.

    Raises:
        DataFileError: the version does not hold the file, or the file cannot be read.
    """
    add = next(iter(snapshot.add_files(paths=[path])), None)
    if add is None:
        what = f"Version {snapshot.version} does not hold the file {path}."
        raise DataFileError(what, "Its rows are read from the version that the write read.")
    row_numbers, last = pa.array(sorted(positions), pa.int64()), max(positions, default=-1)
    tables: list[pa.Table] = []
    start = 0
    batches = iter_file(snapshot, add, columns, with_positions=True, batch_rows=batch_rows)
    for rows in batches:
        mask = pc.is_in(rows.column(ROW_INDEX), value_set=row_numbers)
        tables.append(rows.filter(mask))
        start += batch_rows
        if start > last:
            break
    return pa.concat_tables(tables)
