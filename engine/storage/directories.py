"""Directories below a location, for finding tables without a catalog."""

import errno
import os
from pathlib import Path

from engine.errors import StorageError
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.object_store import ObjectStore

_GONE = (errno.ENOENT, errno.ENOTDIR)


def child_directories(store: Store, directory: str) -> list[str]:
    """List the names of a directory's subdirectories, sorted, without symbolic links.

    Raises:
        StorageError: it cannot be listed.
    """
    if isinstance(store, LocalStore):
        return _local_children(store, directory)
    if isinstance(store, ObjectStore):
        return store.list_directories(directory)
    inside = f"{directory}/" if directory else ""
    paths = (file.path[len(inside) :] for file in store.list_all(directory))
    return sorted({path.partition("/")[0] for path in paths if "/" in path})


def has_files(store: Store, directory: str) -> bool:
    """Return whether a directory has any entry; on an object store by one request.

    Raises:
        StorageError: it cannot be listed.
    """
    if isinstance(store, LocalStore):
        return _has_entries(Path(store.locate(directory)))
    if isinstance(store, ObjectStore):
        return store.has_objects(directory)
    return next(iter(store.list_all(directory)), None) is not None


def _local_children(store: LocalStore, directory: str) -> list[str]:
    place = store.locate(directory) if directory else store.root
    try:
        with os.scandir(place) as entries:
            return sorted(item.name for item in entries if item.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno in _GONE:  # deleted a moment ago
            return []
        msg = f"{directory or store.root} could not be listed: {error.strerror}."
        raise StorageError(msg, "Check the permissions of this process.") from error


def _has_entries(place: Path) -> bool:
    try:
        with os.scandir(place) as entries:
            return next(entries, None) is not None
    except OSError as error:
        if error.errno in _GONE:
            return False
        msg = f"{place} could not be listed: {error.strerror}."
        raise StorageError(msg, "Check the permissions of this process.") from error
