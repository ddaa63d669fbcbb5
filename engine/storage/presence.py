"""Existence of files, checked with the fewest requests; and deletion of many files."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from engine.storage.base import FileStatus, Store
from engine.storage.local import LocalStore
from engine.storage.object_store import OBJECT_SCHEMES

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_AT_ONCE, _READERS, _AHEAD = 16, 8, 64
_LISTED_FROM = 64
_NOTED_FILES = 1000
_LISTED_FOR_ONE = 12
"""Listing about this many files costs as much as one request by name."""


@dataclass(frozen=True, slots=True)
class StoreListing:
    """The paths below a root. `listed` holds their statuses, None if not yet read."""

    store: Store
    paths: Collection[str]
    listed: Mapping[str, FileStatus] | None = None

    @classmethod
    def list_store(
        cls, store: Store, note: Callable[[int], object] = lambda _count: None
    ) -> "StoreListing":
        """List everything in a store; on a local one, only names are read.

        `note` is told the number of listed files now and then, and may raise to end the listing.

        Raises:
            StorageError: it cannot be listed.
        """
        if isinstance(store, LocalStore):
            return cls(store, list(_iter_noted(store.list_paths(), note)))
        listed = {file.path: file for file in _iter_noted(store.list_all(), note)}
        return cls(store, listed.keys(), listed)

    def statuses(self, paths: Iterable[str]) -> list[FileStatus]:
        """Return the statuses of some of the paths; deleted files may be missing.

        Raises:
            StorageError: the store did not answer.
        """
        if self.listed is not None:
            return [self.listed[path] for path in paths]
        if isinstance(self.store, LocalStore):
            return list(self.store.stat_many(paths))
        return statuses_of(self.store, list(paths))


def _iter_noted(files: Iterable[Item], note: Callable[[int], object]) -> Iterator[Item]:
    for count, file in enumerate(files, 1):
        if count % _NOTED_FILES == 0:
            note(count)
        yield file


def find_missing_files(store: Store, paths: Collection[str], neighbor_count: int = 0) -> list[str]:
    """Return the missing files, sorted.

    `paths` are decoded, and relative to the root. `neighbor_count` is the known number of other
    files below it.

    Raises:
        StorageError: the store did not answer.
    """
    there = {status.path for status in statuses_of(store, paths, neighbor_count)}
    return sorted(set(paths) - there)


def statuses_of(store: Store, paths: Collection[str], neighbor_count: int = 0) -> list[FileStatus]:
    """Return the statuses of the existing files, sorted by path.

    A few files are requested by name, in parallel on an object store; many local ones folder by
    folder. On an object store, many are found by one listing if they are a good part of all files.
    Files missing from it are requested by name.

    Args, Raises: as in `find_missing_files`.
    """
    asked = set(paths)
    there: list[FileStatus] = []
    few = len(asked) < _LISTED_FROM
    if not few and isinstance(store, LocalStore):
        there = list(store.stat_many(asked))
    elif not few and len(asked) + neighbor_count <= len(asked) * _LISTED_FOR_ONE:
        there = [file for file in store.list_all() if file.path in asked]
    asked -= {file.path for file in there}
    statuses = read_ahead(store, store.stat, sorted(asked), _AT_ONCE)
    there += [status for status in statuses if status is not None]
    return sorted(there, key=lambda status: status.path)


def delete_files(store: Store, paths: Sequence[str]) -> None:
    """Delete files, in parallel on an object store, by folder on a local one.

    Raises:
        StorageError: one could not be deleted; others may be gone.
    """
    if isinstance(store, LocalStore):
        store.delete_many(paths)
        return
    for _ in read_ahead(store, store.delete, paths, _AT_ONCE):
        continue


def read_ahead(
    store: Store, read: Callable[[Item], Answer], items: Sequence[Item], at_once: int = _READERS
) -> Iterator[Answer]:
    """Yield a store call's result for each item in order, in parallel on an object store.

    A small local file is read faster than a thread is started.
    """
    if len(items) < 2 or not is_remote(store):
        yield from map(read, items)
        return
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        for start in range(0, len(items), _AHEAD):
            yield from pool.map(read, items[start : start + _AHEAD])


def is_remote(store: Store) -> bool:
    """Return whether a request to the store is a network call, better made in parallel."""
    return store.root.partition("://")[0] in OBJECT_SCHEMES
