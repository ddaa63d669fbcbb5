"""Tables in memory, for tests and demonstrations.

Files are kept for the whole process by URL, so two handles of one table share them.
"""

import itertools
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from engine.errors import FileExistsAlreadyError, FileMissingError
from engine.storage.base import FileStatus, check_path


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    modified_ms: int
    etag: str

    def status(self, path: str) -> FileStatus:
        return FileStatus(path, len(self.data), self.modified_ms, self.etag)


_files: dict[str, _File] = {}
_etags = itertools.count()
_names: list[str] = []  # sorted keys: the files below a URL are adjacent
_lock = threading.Lock()
_LAST = "\U0010ffff"  # sorts after every name


class MemoryStore:
    """The files below one `memory://` URL."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    @property
    def root(self) -> str:
        """The URL."""
        return self._root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """Read a file, or `length` bytes of it from `start`."""
        data = self._find(path).data
        begin = start or 0
        return data[begin:] if length is None else data[begin : begin + length]

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """Yield the files of one directory named `start` or later, sorted by name."""
        inside = f"{check_path(directory)}/" if directory else ""
        statuses = (
            status for status in self.list_all(directory) if "/" not in status.path[len(inside) :]
        )
        yield from sorted(
            (status for status in statuses if status.name >= start),
            key=lambda status: status.path,
        )

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Yield every file below a directory."""
        inside = self._key(f"{prefix}/" if prefix else "")
        with _lock:
            keys = _names[bisect_left(_names, inside) : bisect_left(_names, f"{inside}{_LAST}")]
            skip = len(self._root) + 1
            statuses = [_files[key].status(key[skip:]) for key in keys]
        yield from statuses

    def stat(self, path: str) -> FileStatus | None:
        """Return the file's status, None if it does not exist."""
        content = _files.get(self._key(path))
        return None if content is None else content.status(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file, unless it exists."""
        key = self._key(path)
        with _lock:
            if key in _files:
                msg = f"{path} exists already."
                raise FileExistsAlreadyError(msg)
            _write(key, data)

    def put(self, path: str, data: bytes) -> None:
        """Write a file, replacing any existing one."""
        with _lock:
            _write(self._key(path), data)

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a file in pieces, replacing any existing one."""
        self.put(path, b"".join(pieces))

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        key = self._key(path)
        with _lock:
            if _files.pop(key, None) is not None:
                del _names[bisect_left(_names, key)]

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        return pa.BufferReader(self._find(path).data)

    def make_durable(self, paths: Iterable[str]) -> None:
        """Do nothing: files in memory do not survive the machine."""

    def _key(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _find(self, path: str) -> _File:
        content = _files.get(self._key(path))
        if content is None:
            msg = f"There is no file {path}."
            raise FileMissingError(msg)
        return content


def _write(key: str, data: bytes) -> None:
    """Store a file; the caller holds the lock."""
    if key not in _files:
        insort(_names, key)
    _files[key] = _File(bytes(data), time.time_ns() // 1_000_000, str(next(_etags)))
