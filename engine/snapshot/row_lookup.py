"""A few rows of one file by their positions, read without Spark."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import DataFileError
from engine.snapshot.bounded_rows import PERSON_BATCH_BYTES, CellLimitError
from engine.snapshot.reader import ROW_INDEX, iter_file
from engine.snapshot.snapshot import Snapshot

_KEPT_BATCHES = 4


def read_rows_at(
    snapshot: Snapshot,
    path: str,
    positions: Collection[int],
    columns: Sequence[str],
    *,
    batch_rows: int = 65_536,
    batch_bytes: int = PERSON_BATCH_BYTES,
) -> pa.Table:
    """Read the live rows at physical positions of a live file, in order, with `__row_index`.

    Deleted and nonexistent positions are left out. The file is read up to the last requested
    position.

    Raises:
        CellLimitError: a row exceeds `batch_bytes`, or all rows exceed four times this limit.
        DataFileError: the version has no such file, or it is unreadable.
    """
    add = next(iter(snapshot.add_files(paths=[path])), None)
    if add is None:
        what = f"Version {snapshot.version} does not contain the file {path}."
        raise DataFileError(what, "Read its rows from the version that the write read.")
    row_numbers, last = pa.array(sorted(positions), pa.int64()), max(positions, default=-1)
    tables: list[pa.Table] = []
    batches = iter_file(
        snapshot,
        add,
        columns,
        with_positions=True,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
    )
    size_bytes = 0
    for rows in batches:
        mask = pc.is_in(rows.column(ROW_INDEX), value_set=row_numbers)
        tables.append(rows.filter(mask))
        size_bytes += tables[-1].nbytes
        if size_bytes > _KEPT_BATCHES * batch_bytes:
            raise CellLimitError(size_bytes, batch_bytes)
        if rows.num_rows and rows.column(ROW_INDEX)[-1].as_py() >= last:
            break
    return pa.concat_tables(tables)
