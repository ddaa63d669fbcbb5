"""A table's store whose log ends with versions that only one transaction sees."""

import heapq
from collections.abc import Iterable, Iterator

import pyarrow as pa

from engine.clock import Clock
from engine.errors import FileExistsAlreadyError, FileMissingError
from engine.log.management import LogManagement, management_of
from engine.log.paths import LOG_DIRECTORY, is_of_version
from engine.storage.base import FileStatus, Store


class PrivateLog:
    """The files of a table, with the log up to one version and private versions after it.

    Private versions are kept in memory: no other reader sees them, and later versions of other
    writers are hidden here. Data files and deletion vectors go to the table's own store.
    """

    def __init__(self, files: Store, read_version: int, clock: Clock) -> None:
        """Follow the table's store up to a version."""
        self.files, self.read_version, self._clock = files, read_version, clock
        self._private: dict[str, tuple[FileStatus, bytes]] = {}

    @property
    def root(self) -> str:
        """The table's place."""
        return self.files.root

    @property
    def management(self) -> LogManagement | None:
        """The catalog of the table, if it has one."""
        return management_of(self.files)

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """Read a file; a private version from memory."""
        if path not in self._private:
            self._check_visible(path)
            return self.files.read(path, start, length)
        data = self._private[path][1]
        first = start or 0
        return data[first:] if length is None else data[first : first + length]

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file; a private version in memory."""
        if path not in self._private:
            self._check_visible(path)
            return self.files.open_input(path)
        return pa.BufferReader(self._private[path][1])

    def stat(self, path: str) -> FileStatus | None:
        """Return the status of a file, None if it does not exist or is hidden."""
        if path in self._private:
            return self._private[path][0]
        return None if self._is_hidden(path) else self.files.stat(path)

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """Yield the visible files of one directory, sorted by name."""
        listed = self.files.list_from(directory, start)
        if directory != LOG_DIRECTORY:
            yield from listed
            return
        visible = (file for file in listed if not self._is_hidden(file.path))
        private = sorted(path for path in self._private if path.rpartition("/")[2] >= start)
        of_transaction = (self._private[path][0] for path in private)
        yield from heapq.merge(visible, of_transaction, key=lambda file: file.name)

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Yield every stored file below a directory; private versions are not stored."""
        return self.files.list_all(prefix)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file unless it exists; a file of the log stays private.

        Raises:
            FileExistsAlreadyError: the name is taken.
        """
        if not _is_in_log(path):
            self.files.put_if_absent(path, data)
            return
        if self.stat(path) is not None:
            msg = f"{path} exists already."
            raise FileExistsAlreadyError(msg)
        self.put(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing any existing one; a file of the log stays private."""
        if _is_in_log(path):
            self._private[path] = FileStatus(path, len(data), self._clock.now_ms()), data
        else:
            self.files.put(path, data)

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a large file in pieces; a file of the log stays private."""
        if _is_in_log(path):
            self.put(path, b"".join(pieces))
        else:
            self.files.put_stream(path, pieces)

    def delete(self, path: str) -> None:
        """Delete a file; of the log only a private one."""
        if _is_in_log(path):
            self._private.pop(path, None)
        else:
            self.files.delete(path)

    def make_durable(self, paths: Iterable[str]) -> None:
        """Sync stored files to disk."""
        self.files.make_durable(paths)

    def _is_hidden(self, path: str) -> bool:
        """Return whether a stored file of the log is later than the version read."""
        directory, _, name = path.rpartition("/")
        return directory == LOG_DIRECTORY and not is_of_version(name, self.read_version)

    def _check_visible(self, path: str) -> None:
        if self._is_hidden(path):
            msg = f"The transaction reads version {self.read_version} of {self.root}."
            raise FileMissingError(msg)


def _is_in_log(path: str) -> bool:
    return path.startswith(f"{LOG_DIRECTORY}/")
