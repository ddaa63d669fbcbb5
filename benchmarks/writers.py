"""B5: UPDATE of other rows of one file by 2, 8 and 32 writers at once, and of the same row.

Every update that lands adds 1 to a row, so the sum of the rows says whether one is missing. deltalake
works in turns with this engine on tables of its own.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from threading import Barrier

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from benchmarks.measuring import Comparison, show
from benchmarks.races import KINDS, race
from engine.commands.model import Update
from engine.errors import ConflictError
from engine.operations.run import run
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver

WRITERS, EACH, TURNS, ROWS = (2, 8, 32), 6, 3, 10_000
RIVALS, ROUNDS = 8, 5


def measure(
    writers: Sequence[int] = WRITERS, turns: int = TURNS, rounds: int = ROUNDS
) -> list[Comparison]:
    """Of other rows, then of the same row."""
    results: list[Comparison] = []
    for kind in KINDS:
        for count in writers:
            results += _other_rows(kind, count, turns)
    return results + [_same_row(kind, rounds) for kind in KINDS]


def _other_rows(kind: str, writers: int, turns: int) -> list[Comparison]:
    landed = dict.fromkeys(_ENGINES, 0)
    rates: dict[str, list[float]] = {name: [] for name in _ENGINES}
    for _ in range(turns):
        for name in _ENGINES:
            with tempfile.TemporaryDirectory() as scratch:
                place = _fill_table(Path(scratch) / "t")
                keys = [range(i * EACH, (i + 1) * EACH) for i in range(writers)]
                counts, spent = race(kind, _update_each, [(name, place, own) for own in keys])
                assert _sum(place) == sum(counts), (name, counts)  # noqa: S101
            landed[name] += sum(counts)
            rates[name].append(sum(counts) / spent)
    tried = turns * writers * EACH
    what = f"B5 {writers} {kind} × {EACH} updates of other rows of one file"
    ours, other = landed["engine"], landed["deltalake"]
    return [
        Comparison(
            f"{what}: of {tried} landed, {tried - ours} and {tried - other} were aborted",
            ours,
            "deltalake",
            other,
            "",
            more_is_better=True,
        ),
        Comparison(
            f"{what}: landed a second",
            median(rates["engine"]),
            "deltalake",
            median(rates["deltalake"]),
            "/s",
            more_is_better=True,
        ),
    ]


def _same_row(kind: str, rounds: int) -> Comparison:
    """All have read the row before the first of them commits, so that one of them can land."""
    landed = dict.fromkeys(_ENGINES, 0)
    for name in _ENGINES:
        with tempfile.TemporaryDirectory() as scratch:
            place = _fill_table(Path(scratch) / "t")
            for _ in range(rounds):
                counts, _ = race(kind, _update_together, [(name, place)] * RIVALS)
                landed[name] += sum(counts)
                assert name != "engine" or sum(counts) == 1, counts  # noqa: S101
            assert _sum(place) == landed[name], (name, landed)  # noqa: S101
    return Comparison(
        f"B5 {RIVALS} {kind} update the same row at once, {rounds} times: landed",
        landed["engine"],
        "deltalake",
        landed["deltalake"],
        "",
        more_is_better=True,
    )


def _update_each(name: str, place: str, keys: Sequence[int], barrier: Barrier) -> int:
    """How many of a writer's updates landed."""
    update = _ENGINES[name](place, None)
    barrier.wait(120)
    return sum(map(update, keys))


def _update_together(name: str, place: str, barrier: Barrier) -> int:
    """Whether the update of the first row landed."""
    return _ENGINES[name](place, barrier)(0)


class _ReadByAll(TransactionObserver):
    """Lets nobody commit before everybody has read."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier

    def staged(self, txn: ObservedTransaction) -> None:  # noqa: ARG002 - of every transaction
        """Wait for the others."""
        self._barrier.wait(120)


def _ours(place: str, before_commit: Barrier | None) -> Callable[[int], bool]:
    table = DeltaTable.open(place)
    observer = _ReadByAll(before_commit) if before_commit else None

    def update(key: int) -> bool:
        command = Update(where=f"id = {key}", assignments={"v": "v + 1"})
        try:
            run(command, table, None, observer=observer)
        except ConflictError:
            return False
        return True

    return update


def _theirs(place: str, before_commit: Barrier | None) -> Callable[[int], bool]:
    table = RustTable(place)
    if before_commit:
        before_commit.wait(120)

    def update(key: int) -> bool:
        nonlocal table
        try:
            table.update({"v": "v + 1"}, predicate=f"id = {key}")
        except (CommitFailedError, DeltaError):
            return False
        finally:
            table = table if before_commit else RustTable(place)
        return True

    return update


_ENGINES = {"engine": _ours, "deltalake": _theirs}


def _fill_table(place: Path) -> str:
    rows = {"id": pa.array(range(ROWS), pa.int64()), "v": pa.array([0] * ROWS, pa.int64())}
    write_deltalake(
        str(place), pa.table(rows), configuration={"delta.enableDeletionVectors": "true"}
    )
    return str(place)


def _sum(place: str) -> int:
    return int(pc.sum(DeltaTable.open(place).snapshot().to_arrow()["v"]).as_py())


if __name__ == "__main__":
    show(measure())
