"""Access to the data files named by a log: opened for Arrow, or checked before Spark opens them.

Local files are reached through their store, which follows no symbolic link out of the table, on the
driver and on executors alike. Spark's own readers follow every link.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.files import AddFile
from engine.actions.statistics import read_claimed_rows
from engine.deletion_vectors.files import read_deletion_vector
from engine.errors import (
    DataFileError,
    DataFileMissingError,
    DeletionVectorError,
    FileMissingError,
)
from engine.log.parquet_limits import is_inflated, reason_of
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.uri import ResolvedPath, open_beside, resolve_log_path

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
                msg = f"The data file {place.path} says it holds {parquet.metadata.num_rows} rows."
                raise DataFileError(msg, "Do not trust it: its bytes cannot hold them.")
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


def read_deleted_rows(store: Store, add: AddFile, allowed_roots: Sequence[str] = ()) -> BitMap64:
    """Return the rows deleted by a file's deletion vector, checked against its row count.

    The footer is read if the log claims too few rows for the vector.

    Raises:
        DeletionVectorError: the vector is missing or damaged, or exceeds the file's rows.
        DataFileError, PathOutsideRootError: as in `open_parquet`.
    """
    if add.deletion_vector is None:
        return BitMap64()
    deleted = read_deletion_vector(store, add.deletion_vector, allowed_roots)
    if deleted and deleted.max() >= (read_claimed_rows(add.stats) or 0):
        check_within(deleted, count_rows(store, add.path, allowed_roots), add.path)
    return deleted


def check_within(deleted: BitMap64, count: int, path: str) -> None:
    """Check that a deletion vector stays within the rows of its file.

    Raises:
        DeletionVectorError: it does not.
    """
    if deleted and deleted.max() >= count:
        msg = f"The deletion vector of {path} deletes row {deleted.max()}, but the file has {count} rows."
        raise DeletionVectorError(msg, REMEDY)


def sizes_of(places: Iterable[ResolvedPath]) -> list[int | None]:
    """Return the sizes of local files after checking links, for readers that follow them.

    Remote files get None without a request: their stores have no links.

    Raises:
        PathOutsideRootError: a symbolic link leads out of its root.
        DataFileMissingError: a file does not exist, or is a directory.
    """
    stores: dict[str, LocalStore] = {}
    sizes: list[int | None] = []
    for place in places:
        if "://" in place.root:
            sizes.append(None)
            continue
        if place.root not in stores:
            stores[place.root] = LocalStore(place.root)
        status = stores[place.root].stat(place.path)
        if status is None:
            msg = f"The data file {place.path} of {place.root} is missing."
            raise DataFileMissingError(msg, REMEDY)
        sizes.append(status.size_bytes)
    return sizes
