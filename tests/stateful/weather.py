"""What a history may run into: answers that are lost, and time that nobody waits for."""

from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa

from engine.errors import StorageOutcomeUnknownError
from engine.storage.base import FileStatus, Store

_LOG = "_delta_log/"


class FakeClock:
    """Each look is a millisecond later; pauses take no time."""

    def __init__(self) -> None:
        self._ms = count(1_700_000_000_000)

    def now_ms(self) -> int:
        return next(self._ms)

    def monotonic_s(self) -> float:
        return 0.0

    def pause(self, seconds: float) -> None:
        """Nobody waits."""


class ForgetfulStore:
    """A store that loses its answer to the next put into the log, if it has a `fault`."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.fault: str | None = None

    @property
    def root(self) -> str:
        return self._inner.root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        return self._inner.list_from(directory, start)

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        return self._inner.list_all(prefix)

    def stat(self, path: str) -> FileStatus | None:
        return self._inner.stat(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        fault, self.fault = (self.fault, None) if path.startswith(_LOG) else (None, self.fault)
        if fault != "not written":
            self._inner.put_if_absent(path, data)
        if fault is not None:
            what = "The answer was lost."
            raise StorageOutcomeUnknownError(what)

    def put(self, path: str, data: bytes) -> None:
        self._inner.put(path, data)

    def delete(self, path: str) -> None:
        self._inner.delete(path)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._inner.open_input(path)

    def make_durable(self, paths: Iterable[str]) -> None:
        self._inner.make_durable(paths)
