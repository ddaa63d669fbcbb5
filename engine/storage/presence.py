"""Whether files are there, asked of the store in the way that takes the fewest turns; and many deleted."""

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
_LISTED_FOR_ONE = 12
"""About so many files of a listing cost as much as asking for one of them by its name."""


@dataclass(frozen=True, slots=True)
class StoreListing:
    """What lies below a root, by its paths. `listed` is what the store said of it, None where nothing yet."""

    store: Store
    paths: Collection[str]
    listed: Mapping[str, FileStatus] | None = None

    @classmethod
    def list_store(cls, store: Store) -> "StoreListing":
        """Everything that a store has. On this machine nothing but names is looked up.

        Raises:
            StorageError: it cannot be listed.
        """
        if isinstance(store, LocalStore):
            return cls(store, list(store.list_paths()))
        listed = {file.path: file for file in store.list_all()}
        return cls(store, listed.keys(), listed)

    def statuses(self, paths: Iterable[str]) -> list[FileStatus]:
        """What the store says of some of the paths; of a file that is gone by now it may say nothing.

        Raises:
            StorageError: the store could not say.
        """
        if self.listed is not None:
            return [self.listed[path] for path in paths]
        if isinstance(self.store, LocalStore):
            return list(self.store.stat_many(paths))
        return statuses_of(self.store, list(paths))


def find_missing_files(store: Store, paths: Collection[str], neighbor_count: int = 0) -> list[str]:
    """The files that are not there, sorted.

    Args:
        store: the table's.
        paths: decoded, relative to the root.
        neighbor_count: how many other files lie below the root, as far as is known.

    Raises:
        StorageError: the store could not say.
    """
    there = {status.path for status in statuses_of(store, paths, neighbor_count)}
    return sorted(set(paths) - there)


def statuses_of(store: Store, paths: Collection[str], neighbor_count: int = 0) -> list[FileStatus]:
    """What the store says of those files that are there, sorted by path.

    A few are requested by name, of an object store several at a time, many on this machine a folder's
    at once. Elsewhere many are found by one listing, where they are a good part of all that lies
    below the table. What that lacks is requested by name before it is missing.

    Args, Raises: as `find_missing_files`.
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
    """Delete files, in an object store several at a time, here a folder's at once.

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
    """What a call of the store gives for each item, in their order, of an object store several at a time.

    A small file of this machine is read sooner than a thread is told to.
    """
    if len(items) < 2 or not is_remote(store):
        yield from map(read, items)
        return
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        for start in range(0, len(items), _AHEAD):
            yield from pool.map(read, items[start : start + _AHEAD])


def is_remote(store: Store) -> bool:
    """Whether a question to the store is a turn of the network, worth being asked beside others."""
    return store.root.partition("://")[0] in OBJECT_SCHEMES
