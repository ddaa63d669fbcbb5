"""A store whose n-th call fails, in each of the ways that stores fail."""

import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import pyarrow as pa

from engine.errors import StorageError, StorageOutcomeUnknownError
from engine.storage.base import FileStatus, Store
from engine.storage.memory import MemoryStore

Answer = TypeVar("Answer")
BEFORE, AFTER, LOST = "before its effect", "after its effect", "lost on the way"
FULL_DISK = "the disk is full"


@dataclass
class FaultyStore:
    """A store whose calls from `fail_at` on fail, `times` of them; `calls` records every call.

    A write that fails after its effect, or whose answer is lost, has an unknown outcome; a deletion
    reports a failure, done or not; a listing breaks off after its first entry.
    """

    inner: Store
    fail_at: int = 0
    mode: str = BEFORE
    times: int = 1
    calls: list[str] = field(default_factory=list)
    fired: int = 0

    @property
    def root(self) -> str:
        return self.inner.root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        return self._call(f"read {path}", lambda: self.inner.read(path, start, length))

    def stat(self, path: str) -> FileStatus | None:
        return self._call(f"stat {path}", lambda: self.inner.stat(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._call(f"open {path}", lambda: self.inner.open_input(path))

    def make_durable(self, paths: Iterable[str]) -> None:
        self._call("make durable", lambda: self.inner.make_durable(paths))

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        return self._iter_files(f"list {directory}", self.inner.list_from(directory, start))

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        return self._iter_files(f"list all {prefix}", self.inner.list_all(prefix))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._write(f"create {path}", data, lambda: self.inner.put_if_absent(path, data))

    def put(self, path: str, data: bytes) -> None:
        self._write(f"put {path}", data, lambda: self.inner.put(path, data))

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        data = b"".join(pieces)
        self._write(f"put {path}", data, lambda: self.inner.put_stream(path, (data,)))

    def delete(self, path: str) -> None:
        due = self._due(f"delete {path}")
        if not due or self.mode == AFTER:
            self.inner.delete(path)
        if due:
            raise self._failure()

    def _call(self, what: str, ask: Callable[[], Answer]) -> Answer:
        if self._due(what):
            raise self._failure()
        return ask()

    def _iter_files(self, what: str, files: Iterator[FileStatus]) -> Iterator[FileStatus]:
        if not self._due(what):
            yield from files
            return
        if self.mode == AFTER:
            yield from islice(files, 1)
        raise self._failure()

    def _write(self, what: str, data: bytes, write: Callable[[], None]) -> None:
        due = self._due(what)
        if not due:
            write()
        elif self.mode == FULL_DISK:
            with room_for(len(data) // 2):
                write()
        elif self.mode == BEFORE:
            raise self._failure()
        elif self.mode == LOST:
            raise self._outcome_unknown_error()
        else:
            write()
            raise self._outcome_unknown_error()

    def _due(self, what: str) -> bool:
        self.calls.append(what)
        due = 0 < self.fail_at <= len(self.calls) < self.fail_at + self.times
        self.fired += due
        return due

    def _failure(self) -> StorageError:
        msg = f"Call {len(self.calls)} ({self.calls[-1]}) failed."
        return StorageError(msg)

    def _outcome_unknown_error(self) -> StorageOutcomeUnknownError:
        msg = f"Call {len(self.calls)} ({self.calls[-1]}) timed out."
        return StorageOutcomeUnknownError(msg)


def faults(calls: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and mode of every possible fault of a run; reads have fewer modes."""
    for number, what in enumerate(calls, 1):
        yield number, BEFORE
        if what.startswith(("create", "put", "delete", "list")):
            yield number, AFTER
        if what.startswith(("create", "put")):
            yield number, LOST


def copy_store(store: Store, root: str) -> Store:
    """Return a copy of the files at another location in memory."""
    copy = MemoryStore(root)
    for file in store.list_all():
        copy.put(file.path, store.read(file.path))
    return copy


class room_for:  # noqa: N801 - used as a function
    """A limit on the size of this process's files, so that a write really fails half-way."""

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def __enter__(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
