"""Small tables in memory, stores that fail on demand, and a clock without waiting."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from engine.actions.files import AddFile, RemoveFile
from engine.errors import StorageError, StorageOutcomeUnknownError
from engine.schema.types import LONG, StructField, StructType
from engine.storage.base import FileStatus, Store
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.made_tables import stage

SCHEMA = StructType((StructField("x", LONG),))


def new_table(**properties: str) -> DeltaTable:
    named = {f"delta.{key}": value for key, value in properties.items()}
    return DeltaTable.create(f"memory://transactions/{uuid.uuid4()}", SCHEMA, properties=named)


def data_file(path: str, **rest: object) -> AddFile:
    values = {"stats": '{"numRecords":1}', "data_change": True} | rest
    return AddFile(path=path, partition_values={}, size=1, modification_time=1, **values)


def removal_of(path: str, **rest: object) -> RemoveFile:
    return RemoveFile(path=path, **({"data_change": True} | rest))


def append(table: DeltaTable, *paths: str, txn_id: str | None = None) -> int:
    txn = table.start_transaction(txn_id=txn_id)
    stage(txn, *map(data_file, paths))
    return txn.commit("WRITE")


def paths_of(table: DeltaTable) -> set[str]:
    return {add_file.path for add_file in DeltaTable.open(table.uri).snapshot().add_files()}


@dataclass
class FakeClock:
    """A clock that moves only on request, or by its step at each reading."""

    ms: int = 1_700_000_000_000
    seconds: float = 0.0
    step_s: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        self.seconds += self.step_s
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


@dataclass
class FailingStore:
    """A store whose `fail_at`-th call fails: before its effect, after it, or with an unknown outcome.

    `calls` counts calls, `puts` lists those that put if absent, and `fired` tells whether the
    failure occurred. The next `times` calls fail too.
    """

    inner: Store
    fail_at: int = -1
    mode: str = "before"
    times: int = 1
    calls: int = 0
    fired: int = 0
    puts: list[int] = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.inner.root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        self._maybe_fail()
        return self.inner.read(path, start, length)

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        self._maybe_fail()
        return self.inner.list_from(directory, start)

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        self._maybe_fail()
        return self.inner.list_all(prefix)

    def stat(self, path: str) -> FileStatus | None:
        self._maybe_fail()
        return self.inner.stat(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        due = self._due()
        self.puts.append(self.calls)
        if due and self.mode == "before":
            raise self._failure()
        if due and self.mode == "unknown, not written":
            raise self._outcome_unknown_error()
        self.inner.put_if_absent(path, data)
        if due:
            raise self._outcome_unknown_error()

    def put(self, path: str, data: bytes) -> None:
        self._maybe_fail()
        self.inner.put(path, data)

    def delete(self, path: str) -> None:
        self._maybe_fail()
        self.inner.delete(path)

    def open_input(self, path: str) -> pa.NativeFile:
        self._maybe_fail()
        return self.inner.open_input(path)

    def make_durable(self, paths: Iterable[str]) -> None:
        self._maybe_fail()
        self.inner.make_durable(paths)

    def _due(self) -> bool:
        self.calls += 1
        due = self.fail_at <= self.calls < self.fail_at + self.times and self.fail_at > 0
        self.fired += due
        return due

    def _maybe_fail(self) -> None:
        if self._due():
            raise self._failure()

    def _failure(self) -> StorageError:
        what = f"Call {self.calls} failed."
        return StorageError(what)

    def _outcome_unknown_error(self) -> StorageOutcomeUnknownError:
        what = f"Call {self.calls} timed out."
        return StorageOutcomeUnknownError(what)


def open_failing(table: DeltaTable, **faults: object) -> tuple[DeltaTable, FailingStore]:
    """Open another handle on a table, over a store that fails."""
    store = FailingStore(open_store(table.uri), **faults)
    return DeltaTable(store, clock=FakeClock(ms=1_700_000_000_000)), store
