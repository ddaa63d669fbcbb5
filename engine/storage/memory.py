"""Tables in memory: for tests and demonstrations.

Files are kept for the whole process by URL, so that two handles of one table share them.
"""

import threading
import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from engine.errors import FileExistsAlreadyError, FileMissingError
from engine.storage.base import FileStatus, checked_path

_files: dict[str, tuple[bytes, int]] = {}
_lock = threading.Lock()


class MemoryStore:
    """The files below one `memory://` URL."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    @property
    def root(self) -> str:
        """The URL."""
        return self._root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """A file's bytes, or `length` of them from `start`."""
        data = self._find(path)[0]
        begin = start or 0
        return data[begin:] if length is None else data[begin : begin + length]

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """The files of one directory whose names are `start` or later, sorted by name."""
        inside = f"{checked_path(directory)}/" if directory else ""
        found = (each for each in self.list_all(directory) if "/" not in each.path[len(inside) :])
        yield from sorted(
            (each for each in found if each.name >= start), key=lambda each: each.path
        )

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Every file below a directory."""
        inside = self._key(f"{prefix}/" if prefix else "")
        with _lock:
            found = [
                (key, len(data), ms) for key, (data, ms) in _files.items() if key.startswith(inside)
            ]
        skip = len(self._root) + 1
        yield from (FileStatus(key[skip:], size, ms) for key, size, ms in found)

    def stat(self, path: str) -> FileStatus | None:
        """The file's status, None where there is none."""
        found = _files.get(self._key(path))
        return None if found is None else FileStatus(path, len(found[0]), found[1])

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file, unless it exists."""
        key = self._key(path)
        with _lock:
            if key in _files:
                msg = f"{path} exists already."
                raise FileExistsAlreadyError(msg)
            _files[key] = (bytes(data), _now_ms())

    def put(self, path: str, data: bytes) -> None:
        """Write a file over whatever was there."""
        with _lock:
            _files[self._key(path)] = (bytes(data), _now_ms())

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a file over whatever was there."""
        self.put(path, b"".join(pieces))

    def delete(self, path: str) -> None:
        """Delete a file; one that is absent is deleted already."""
        with _lock:
            _files.pop(self._key(path), None)

    def open_input(self, path: str) -> pa.NativeFile:
        """A file for random access."""
        return pa.BufferReader(self._find(path)[0])

    def make_durable(self, paths: Iterable[str]) -> None:
        """Nothing in memory survives the machine."""

    def _key(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"

    def _find(self, path: str) -> tuple[bytes, int]:
        found = _files.get(self._key(path))
        if found is None:
            msg = f"There is no file {path}."
            raise FileMissingError(msg)
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
