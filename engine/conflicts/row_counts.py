"""Row counts of files as claimed by the log; only a file's footer is proof."""

from engine.actions.files import AddFile, RemoveFile
from engine.actions.statistics import read_claimed_rows


def physical_rows(file: AddFile | RemoveFile) -> int | None:
    """Return the claimed rows of the data file, deleted ones included; None without a claim."""
    return read_claimed_rows(file.stats)


def live_rows(file: AddFile | RemoveFile) -> int | None:
    """Return the live rows by the log's count; None without a plausible count."""
    rows = physical_rows(file)
    if rows is None or file.deletion_vector is None:
        return rows
    left = rows - file.deletion_vector.cardinality
    return left if left >= 0 else None
