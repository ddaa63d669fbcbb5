"""The store interface for a table's log and files.

Paths given to a store are decoded (not percent-encoded), relative to the table's root and separated
by `/`. A store never leaves its root. A large table's files may lie below random directories, which
spread them over an object store's key space.
"""

import secrets
import string
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from engine.errors import FileExistsAlreadyError, PathOutsideRootError


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file: its path relative to the root, its size in bytes, its modification time in ms.

    `etag` changes with every write, None if the store has none.
    """

    path: str
    size_bytes: int
    modified_ms: int
    etag: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def is_unchanged(self, earlier: "FileStatus") -> bool:
        """Return whether nothing distinguishes the file from its earlier status.

        Stores that list milliseconds may report whole seconds for a single file.
        """
        times = {earlier.modified_ms, earlier.modified_ms // 1000 * 1000}
        if self.size_bytes != earlier.size_bytes or self.modified_ms not in times:
            return False
        return None in (self.etag, earlier.etag) or self.etag == earlier.etag


class Store(Protocol):
    """The files of one table.

    Every method raises `StorageError` when the store fails, and `PathOutsideRootError` for a path
    outside the root.
    """

    @property
    def root(self) -> str:
        """The table's place: an absolute path, or a URL."""
        ...

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """Read a file, or `length` bytes of it from `start`.

        Raises:
            FileMissingError: there is no such file.
        """
        ...

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """Yield the files of one directory named `start` or later, sorted by name.

        A directory that does not exist is empty.
        """
        ...

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Yield every file below a directory, in no particular order."""
        ...

    def stat(self, path: str) -> FileStatus | None:
        """Return the file's status, None if it does not exist."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file whole, unless it exists: no reader ever sees a part of it.

        Raises:
            FileExistsAlreadyError: the name is taken; nothing changed.
            StorageOutcomeUnknownError: it may or may not have been written.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing any existing one."""
        ...

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a large file in pieces, replacing any existing one.

        An error from the pieces ends it with nothing written.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; raise `FileMissingError` if there is no such file."""
        ...

    def make_durable(self, paths: Iterable[str]) -> None:
        """Sync files written elsewhere, and their directories, to disk."""
        ...


def put_fresh(store: Store, path: str, data: bytes) -> None:
    """Write a whole file under a unique name.

    An existing file of this name is this one: the object store's client retried after a lost
    response.

    Raises:
        StorageError: it could not be written.
    """
    with suppress(FileExistsAlreadyError):
        store.put_if_absent(path, data)


def check_path(path: str) -> str:
    """Return the path unchanged if it stays below the root.

    Raises:
        PathOutsideRootError: it is absolute, or has a `..` or a NUL in it.
    """
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        msg = f"{path[:500]!r} is not a path below the table's root."
        raise PathOutsideRootError(msg, "Use a relative path without '..'.")
    return path


_ALPHANUMERIC = string.ascii_letters + string.digits


def random_prefix(length: int) -> str:
    """Return random characters, safe in paths and in the log; "" for length 0."""
    return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(length))
