"""Whether files are there, asked of the store in the way that takes the fewest turns."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from engine.storage.base import Store
from engine.storage.object_store import OBJECT_SCHEMES

_AT_ONCE = 16
_LISTED_FROM = 64
_LISTED_FOR_ONE = 12
"""About so many files of a listing cost as much as asking for one of them by its name."""


def missing_files(store: Store, paths: Collection[str], neighbor_count: int = 0) -> list[str]:
    """The files that are not there, sorted.

    A few are requested by name, of an object store several at a time; many, where they are a good part of all that lies
    below the table, by one listing. What a listing lacks is requested by name before it is missing.

    Args:
        store: the table's.
        paths: decoded, relative to the root.
        neighbor_count: how many other files lie below the root, as far as is known.

    Raises:
        StorageError: the store could not say.
    """
    asked = sorted(set(paths))
    few = len(asked) < _LISTED_FROM
    if not few and len(asked) + neighbor_count <= len(asked) * _LISTED_FOR_ONE:
        there = {file.path for file in store.list_all()}
        asked = [path for path in asked if path not in there]
    if len(asked) < 2 or not is_remote(store):
        return [path for path in asked if store.stat(path) is None]
    with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
        statuses = pool.map(store.stat, asked)
        return [path for path, status in zip(asked, statuses, strict=True) if status is None]


def is_remote(store: Store) -> bool:
    """Whether a question to the store is a turn of the network, worth being asked beside others."""
    return store.root.partition("://")[0] in OBJECT_SCHEMES
