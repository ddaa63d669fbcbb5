"""Access to the data files named by a log: opened for Arrow, or checked before Spark opens them.

Local files are reached through their store, which follows no symbolic link out of the table, on the
driver and on executors alike. Spark's own readers follow every link.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.files import AddFile
from engine.actions.statistics import add_row_count
from engine.deletion_vectors.files import read_deletion_vector
from engine.errors import (
    DataFileError,
    DataFileMissingError,
    DeletionVectorError,
    FileMissingError,
)
from engine.log.parquet_limits import is_inflated, reason_of
from engine.storage.base import FileStatus, Store
from engine.storage.local import LocalStore
from engine.storage.presence import statuses_of
from engine.storage.uri import ResolvedPath, open_beside, resolve_log_path

_THREADS = 8
REMEDY = "Restore the file from a backup, or restore the table to an earlier version."


@contextmanager
def open_parquet(
    store: Store,
    path_in_log: str,
    allowed_roots: Sequence[str] = (),
    *,
    pre_buffer: bool = False,
    find_dictionaries: Callable[[pq.ParquetFile], list[str]] | None = None,
) -> Iterator[pq.ParquetFile]:
    """Open a data file named by the log; `find_dictionaries` selects leaves to read encoded.

    Raises:
        DataFileMissingError: it does not exist; DataFileError if it is damaged.
        PathOutsideRootError: it lies outside the table and the allowed roots.
    """
    place = resolve_log_path(store.root, path_in_log, allowed_roots)
    holder = store if place.inside else open_beside(store, place.root)
    try:
        with holder.open_input(place.path) as source:
            parquet = pq.ParquetFile(
                source, coerce_int96_timestamp_unit="us", pre_buffer=pre_buffer
            )
            if is_inflated(parquet.metadata.num_rows, source.size()):
                msg = (
                    f"The footer of the data file {place.path} claims "
                    f"{parquet.metadata.num_rows} rows."
                )
                raise DataFileError(msg, "Do not use the file: it is too small for that many rows.")
            if find_dictionaries is not None:
                parquet = pq.ParquetFile(
                    source,
                    metadata=parquet.metadata,
                    read_dictionary=find_dictionaries(parquet),
                    coerce_int96_timestamp_unit="us",
                )
            yield parquet
    except FileMissingError as error:
        msg = f"The data file {place.path} of {store.root} is missing."
        raise DataFileMissingError(msg, REMEDY) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"The data file {place.path} of {store.root} cannot be read: {reason_of(error)}."
        raise DataFileError(msg, REMEDY) from error


def count_rows(store: Store, path_in_log: str, allowed_roots: Sequence[str] = ()) -> int:
    """Return the number of physical rows of a data file, from its footer.

    Code that removes files or rows, or resolves conflicts, must use this: the log's count may be
    wrong.

    Raises:
        DataFileError, PathOutsideRootError: as in `open_parquet`.
    """
    with open_parquet(store, path_in_log, allowed_roots) as parquet:
        return int(parquet.metadata.num_rows)


def add_row_counts(
    adds: Iterable[AddFile], count: Callable[[AddFile], int | None]
) -> list[AddFile]:
    """Set each file's number of rows to the result of `count`; None keeps the file's claim."""

    def add_count(add: AddFile) -> AddFile:
        rows = count(add)
        stats = add.stats if rows is None else add_row_count(add.stats, rows)
        return msgspec.structs.replace(add, stats=stats)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(add_count, adds))


def read_deleted_rows(store: Store, add: AddFile, allowed_roots: Sequence[str] = ()) -> BitMap64:
    """Return the rows deleted by a file's deletion vector, checked against its row count.

    The row count comes from the footer, not from the log.

    Raises:
        DeletionVectorError: the vector is missing or damaged, or exceeds the file's rows.
        DataFileError, PathOutsideRootError: as in `open_parquet`.
    """
    if add.deletion_vector is None:
        return BitMap64()
    deleted = read_deletion_vector(store, add.deletion_vector, allowed_roots)
    if deleted:
        check_within(deleted, count_rows(store, add.path, allowed_roots), add.path)
    return deleted


def check_within(deleted: BitMap64, count: int, path: str) -> None:
    """Check that a deletion vector stays within the rows of its file.

    Raises:
        DeletionVectorError: it does not.
    """
    if deleted and deleted.max() >= count:
        msg = (
            f"The deletion vector of {path} deletes row {deleted.max()}, but the file has "
            f"{count} rows."
        )
        raise DeletionVectorError(msg, REMEDY)


def read_sizes(store: Store, places: Sequence[ResolvedPath], neighbor_count: int) -> list[int]:
    """Return the sizes of data files in bytes from their stores.

    A reader with too small a size loses rows. Links of local files are checked, for readers that
    follow them.

    `neighbor_count` is the known number of other files below the table.

    Raises:
        PathOutsideRootError: a symbolic link leads out of its root.
        DataFileMissingError: a file does not exist, or is a directory.
        StorageError: a store did not answer.
    """
    by_root: dict[str, list[str]] = {}
    for place in places:
        by_root.setdefault(place.root, []).append(place.path)
    sizes = {
        (root, status.path): status.size_bytes
        for root, paths in by_root.items()
        for status in _read_statuses(store, root, paths, neighbor_count)
    }
    for place in places:
        if (place.root, place.path) not in sizes:
            msg = f"The data file {place.path} of {place.root} is missing."
            raise DataFileMissingError(msg, REMEDY)
    return [sizes[place.root, place.path] for place in places]


def _read_statuses(
    store: Store, root: str, paths: Sequence[str], neighbor_count: int
) -> Iterable[FileStatus]:
    if "://" in root:
        holder = store if root == store.root else open_beside(store, root)
        return statuses_of(holder, paths, neighbor_count)
    local = LocalStore(root)
    return [status for path in paths if (status := local.stat(path)) is not None]
