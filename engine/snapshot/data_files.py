"""The data files that a log names, where they are: opened for Arrow, or looked at before Spark opens them.

Files of this machine are reached through their store, which follows no symbolic link out of the table,
on the driver and on executors alike. Spark's own readers follow every link.
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
    """A data file that the log names; leaves that `find_dictionaries` returns are read as dictionaries.

    Raises:
        DataFileMissingError: it is not there; DataFileError if it is damaged.
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
    """Return the physical rows of a data file as its footer counts them.

    Whatever removes a file, a row or a conflict asks this: a count in the log is a claim.

    Raises:
        DataFileError, PathOutsideRootError: as `open_parquet`.
    """
    with open_parquet(store, path_in_log, allowed_roots) as parquet:
        return int(parquet.metadata.num_rows)


def read_deleted_rows(store: Store, add: AddFile, allowed_roots: Sequence[str] = ()) -> BitMap64:
    """Return the rows that a file's deletion vector deletes, for readers that do not count its rows.

    The footer is read where the log does not claim enough rows for the vector.

    Raises:
        DeletionVectorError: the vector is missing or damaged, or deletes rows that the file lacks.
        DataFileError, PathOutsideRootError: as `open_parquet`.
    """
    if add.deletion_vector is None:
        return BitMap64()
    deleted = read_deletion_vector(store, add.deletion_vector, allowed_roots)
    if deleted and deleted.max() >= (read_claimed_rows(add.stats) or 0):
        check_within(deleted, count_rows(store, add.path, allowed_roots), add.path)
    return deleted


def check_within(deleted: BitMap64, count: int, path: str) -> None:
    """Make sure that a deletion vector deletes no row that its file does not have.

    Raises:
        DeletionVectorError: it does.
    """
    if deleted and deleted.max() >= count:
        msg = f"The deletion vector of {path} deletes row {deleted.max()}, but the file has {count} rows."
        raise DeletionVectorError(msg, REMEDY)


def sizes_of(places: Iterable[ResolvedPath]) -> list[int | None]:
    """The bytes of files of this machine, which are where they seem to be: for readers that follow links.

    Files elsewhere are not asked for, and have None: their stores have no links, and each would be a
    request.

    Raises:
        PathOutsideRootError: a symbolic link leads one out of its root.
        DataFileMissingError: one is not there, or is a directory.
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
