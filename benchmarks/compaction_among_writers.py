"""B6: OPTIMIZE in a loop while four writers update rows: what lands of it, and whether an update is lost.

Each engine has a table of its own and works on it in turns with the other. Every writer
appends a row before each update, by deltalake, so that there is always something to compact. An update
that landed added 1 to a row, so the sum of the rows says whether one is missing.
"""

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake
from deltalake import DeltaTable as RustTable
from deltalake.exceptions import CommitFailedError, DeltaError

from benchmarks.measuring import Comparison, show
from benchmarks.spark_lake import local_session
from engine.commands.model import Optimize, Update
from engine.errors import ConflictError
from engine.operations.run import run
from engine.table import DeltaTable
from tests.engine.other_engines import deltalake_rows

SECONDS, TURNS, WRITERS, ROWS = 60.0, 3, 4, 10_000
_Try = Callable[[], bool | None]
"""Whether it landed, None where there was nothing to do."""


def measure(duration: float = SECONDS, turns: int = TURNS) -> list[Comparison]:
    """Seconds are of each engine, all its turns together."""
    with tempfile.TemporaryDirectory() as scratch:
        sides = {
            "engine": _Ours(Path(scratch) / "engine"),
            "deltalake": _Theirs(Path(scratch) / "d"),
        }
        tried = {name: (_Count(), _Count()) for name in sides}
        for _ in range(turns):
            for name, side in sides.items():
                _turn(side, *tried[name], duration / turns)
        lost = {name: tried[name][1].landed - side.sum() for name, side in sides.items()}
    assert not any(lost.values()), lost  # noqa: S101
    (ours, our_updates), (theirs, their_updates) = tried["engine"], tried["deltalake"]
    what = f"B6 OPTIMIZE among {WRITERS} updaters for {duration:.0f} s, no update lost"
    return [
        Comparison(f"{what}: {label}", mine, "deltalake", other, unit, more_is_better=True)
        for label, mine, other, unit in (
            (f"of {ours.tried} and {theirs.tried} compactions with work landed", ours.share, theirs.share, "%"),
            ("compactions landed", ours.landed, theirs.landed, ""),
            ("updates landed", our_updates.landed, their_updates.landed, ""),
            (f"of {our_updates.tried} and {their_updates.tried} updates landed", our_updates.share, their_updates.share, "%"),
        )
    ]  # fmt: skip


class _Count:
    """How many were tried that had something to do, and how many of them landed."""

    def __init__(self) -> None:
        self.tried = self.landed = 0

    @property
    def share(self) -> float:
        """In percent."""
        return 100 * self.landed / self.tried if self.tried else 0.0

    def add(self, landed: bool | None) -> None:
        """One more."""
        self.tried += landed is not None
        self.landed += landed is True


def _turn(side: "_Ours | _Theirs", compactions: _Count, updates: _Count, duration: float) -> None:
    end = time.monotonic() + duration

    def run_until_end(attempt: _Try) -> list[bool | None]:
        outcomes = []
        while time.monotonic() < end:
            outcomes.append(attempt())
        return outcomes

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        writers = [pool.submit(run_until_end, side.updater(number)) for number in range(WRITERS)]
        for landed in pool.submit(run_until_end, side.compact).result():
            compactions.add(landed)
        for writer in writers:
            for landed in writer.result():
                updates.add(landed)


def _fill_table(place: Path) -> str:
    rows = pa.table(
        {"id": pa.array(range(ROWS), pa.int64()), "v": pa.array([0] * ROWS, pa.int64())}
    )
    write_deltalake(str(place), rows, configuration={"delta.enableDeletionVectors": "true"})
    return str(place)


def _append(place: str) -> None:
    """One row in a file of its own, so that there is always something to compact."""
    row = pa.table({"id": pa.array([ROWS], pa.int64()), "v": pa.array([0], pa.int64())})
    properties = CommitProperties(max_commit_retries=1000)
    with suppress(CommitFailedError, DeltaError):
        write_deltalake(place, row, mode="append", commit_properties=properties)


class _Ours:
    """This engine: updates without Spark, OPTIMIZE by it."""

    def __init__(self, place: Path) -> None:
        self._place, self._spark = _fill_table(place), local_session()

    def compact(self) -> bool | None:
        """One OPTIMIZE."""
        try:
            done = run(Optimize(), DeltaTable.open(self._place), self._spark)
        except ConflictError:
            return False
        return None if done.version is None else True

    def updater(self, number: int) -> _Try:
        """One UPDATE of the next row of a writer's own, each time."""
        table, key = DeltaTable.open(self._place), iter(range(number, 10**9, WRITERS))

        def update() -> bool:
            _append(self._place)
            try:
                command = Update(where=f"id = {next(key) % ROWS}", assignments={"v": "v + 1"})
                run(command, table, None)
            except ConflictError:
                return False
            return True

        return update

    def sum(self) -> int:
        """Of what the updates added."""
        return int(pc.sum(DeltaTable.open(self._place).snapshot().to_arrow()["v"]).as_py())


class _Theirs:
    """deltalake, which rewrites the files."""

    def __init__(self, place: Path) -> None:
        self._place = _fill_table(place)

    def compact(self) -> bool | None:
        """One OPTIMIZE."""
        try:
            done = RustTable(self._place).optimize.compact()
        except (CommitFailedError, DeltaError):
            return False
        return True if done["numFilesRemoved"] else None

    def updater(self, number: int) -> _Try:
        """One UPDATE of the next row of a writer's own, each time."""
        key = iter(range(number, 10**9, WRITERS))

        def update() -> bool:
            _append(self._place)
            try:
                table = RustTable(self._place)
                table.update({"v": "v + 1"}, predicate=f"id = {next(key) % ROWS}")
            except (CommitFailedError, DeltaError):
                return False
            return True

        return update

    def sum(self) -> int:
        """Of what the updates added."""
        return sum(row["v"] for row in deltalake_rows(self._place))


if __name__ == "__main__":
    show(measure())
