"""B4: appends of one row each by 1 to 8 processes, with and without syncing, and with puts of 60 ms.

deltalake, which syncs nothing, works in turns on tables of its own. Where every put takes 60 ms, the
other side is what the puts allow: one version after the other. No append is lost.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from threading import Barrier

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from deltalake import DeltaTable as RustTable

from benchmarks.measuring import Comparison, show
from benchmarks.races import race
from engine.clock import SystemClock
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.table import DeltaTable

PROCESSES, APPENDS, TURNS, PUT_SECONDS = (1, 2, 4, 8), 160, 3, 0.06
_SCHEMA = StructType((StructField("id", PrimitiveType("long"), nullable=True),))


def measure(
    processes: Sequence[int] = PROCESSES, appends: int = APPENDS, turns: int = TURNS
) -> list[Comparison]:
    """Measure appends per second, of `appends` in all."""
    results: list[Comparison] = []
    for count in processes:
        rates = {way: [0.0] * turns for way in ("engine", "engine, no fsync", "deltalake")}
        for turn in range(turns):
            for way, of in rates.items():
                of[turn] = _rate(way, count, appends)
        what = f"B4 appends of one row, {count} process{'es'[: 2 * count - 2]}"
        results += [
            _build_comparison(
                f"{what}, {said}", median(rates[way]), "deltalake", median(rates["deltalake"])
            )
            for way, said in (("engine", "fsync on"), ("engine, no fsync", "fsync off"))
        ]
    most = max(processes)
    slow = median(_rate("engine, slow puts", most, appends) for _ in range(turns))
    limit = f"one version in {1000 * PUT_SECONDS:.0f} ms"
    what = f"B4 appends of one row, {most} processes, each put takes {1000 * PUT_SECONDS:.0f} ms"
    return [*results, _build_comparison(what, slow, limit, 1 / PUT_SECONDS)]


def _build_comparison(what: str, ours: float, name: str, other: float) -> Comparison:
    return Comparison(what, ours, name, other, "/s", more_is_better=True)


def _rate(way: str, processes: int, appends: int) -> float:
    """Return appends per second; every one is in the table."""
    with tempfile.TemporaryDirectory() as scratch:
        place = DeltaTable.create(f"{scratch}/t", _SCHEMA).uri
        each = appends // processes
        _, spent = race("processes", _append, [(way, place, each)] * processes)
        rows = RustTable(place).count()
        assert rows == DeltaTable.open(place).snapshot().row_count, rows  # noqa: S101
        assert rows == each * processes, rows  # noqa: S101
    return rows / spent


def _append(way: str, place: str, count: int, barrier: Barrier) -> int:
    append = _WAYS[way](place)
    barrier.wait(120)
    for number in range(count):
        append(number)
    return count


def _open_with_sync(place: str) -> Callable[[int], object]:
    return _build_insert(LocalStore(place))


def _not_synced(place: str) -> Callable[[int], object]:
    """In a process of its own, as all of these are."""
    os.fsync = _skip_sync
    return _build_insert(LocalStore(place))


def _skip_sync(fd: object) -> None:
    """Nothing."""


def _slowly_put(place: str) -> Callable[[int], object]:
    return _build_insert(_FarStore(place))


def _build_insert(store: Store) -> Callable[[int], object]:
    table = DeltaTable(store)
    return lambda number: run(parse_statement(f"INSERT INTO t VALUES ({number})"), table, None)


def _append_with_deltalake(place: str) -> Callable[[int], object]:
    properties = CommitProperties(max_commit_retries=1000)

    def append(number: int) -> None:
        row = pa.table({"id": pa.array([number], pa.int64())})
        write_deltalake(place, row, mode="append", commit_properties=properties)

    return append


_WAYS = {
    "engine": _open_with_sync,
    "engine, no fsync": _not_synced,
    "engine, slow puts": _slowly_put,
    "deltalake": _append_with_deltalake,
}


class _FarStore(LocalStore):
    """Each put takes its time before it has an effect, as in an object store far away."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file, unless it exists."""
        SystemClock().pause(PUT_SECONDS)
        super().put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        SystemClock().pause(PUT_SECONDS)
        super().put(path, data)

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a large file."""
        SystemClock().pause(PUT_SECONDS)
        super().put_stream(path, pieces)


if __name__ == "__main__":
    show(measure())
