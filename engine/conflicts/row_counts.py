"""How many rows a file holds, as far as the log says."""

from engine.actions.files import AddFile, RemoveFile
from engine.snapshot.row_counts import parse_stats


def physical_rows(file: AddFile | RemoveFile) -> int | None:
    """The rows of the data file, deleted ones included; None where its statistics do not say."""
    count = (parse_stats(file.stats) or {}).get("numRecords")
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def live_rows(file: AddFile | RemoveFile) -> int | None:
    """The rows that its deletion vector leaves; None where the log does not say."""
    rows = physical_rows(file)
    if rows is None or file.deletion_vector is None:
        return rows
    return rows - file.deletion_vector.cardinality
