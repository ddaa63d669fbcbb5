"""Faults in a history: lost answers, and time that passes at once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count

import pyarrow as pa

from engine.errors import StorageOutcomeUnknownError
from engine.storage.base import FileStatus, Store

_LOG = "_delta_log/"


class FakeClock:
    """Each look is a millisecond later; pauses take no time."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._ticks, self._skipped_ms = count(start_ms), 0

    def now_ms(self) -> int:
        return next(self._ticks) + self._skipped_ms

    def skip(self, ms: int) -> None:
        """Have so much time pass."""
        self._skipped_ms += ms

    def monotonic_s(self) -> float:
        return 0.0

    def pause(self, seconds: float) -> None:
        """Nobody waits."""


class ForgetfulStore:
    """A store that loses its answer to the next put into the log, if it has a `fault`.

    With a clock, its files are as old as that says.
    """

    def __init__(self, inner: Store, clock: FakeClock | None = None) -> None:
        self._inner, self._clock = inner, clock
        self._times: dict[str, int] = {}
        self.fault: str | None = None
        self.adopt()

    @property
    def root(self) -> str:
        return self._inner.root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        return map(self._age_status, self._inner.list_from(directory, start))

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        return map(self._age_status, self._inner.list_all(prefix))

    def stat(self, path: str) -> FileStatus | None:
        status = self._inner.stat(path)
        return None if status is None else self._age_status(status)

    def put_if_absent(self, path: str, data: bytes) -> None:
        fault, self.fault = (self.fault, None) if path.startswith(_LOG) else (None, self.fault)
        if fault != "not written":
            self._inner.put_if_absent(path, data)
            self._stamp(path)
        if fault is not None:
            what = "The answer was lost."
            raise StorageOutcomeUnknownError(what)

    def put(self, path: str, data: bytes) -> None:
        self._inner.put(path, data)
        self._stamp(path)

    def delete(self, path: str) -> None:
        self._inner.delete(path)
        self._times.pop(path, None)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._inner.open_input(path)

    def make_durable(self, paths: Iterable[str]) -> None:
        self._inner.make_durable(paths)

    def adopt(self) -> None:
        """Have the clock's time for files that were written past this store."""
        for status in list(self._inner.list_all()) if self._clock else ():
            if status.path not in self._times:
                self._stamp(status.path)

    def contents(self) -> dict[str, tuple[bytes, int]]:
        """Every file and its time."""
        return {file.path: (self.read(file.path), file.modified_ms) for file in self.list_all()}

    def put_back(self, contents: Mapping[str, tuple[bytes, int]], *, later_ms: int = 0) -> None:
        """Have these files and no others, as old as they were or so much younger."""
        for status in list(self.list_all()):
            self.delete(status.path)
        for path, (data, modified_ms) in contents.items():
            self._inner.put(path, data)
            self._times[path] = modified_ms + later_ms

    def _stamp(self, path: str) -> None:
        if self._clock is not None:
            self._times[path] = self._clock.now_ms()

    def _age_status(self, status: FileStatus) -> FileStatus:
        known_ms = self._times.get(status.path, status.modified_ms)
        return replace(status, modified_ms=known_ms)
