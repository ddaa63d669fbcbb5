"""B9: VACUUM of 100,000 files of which nothing needs half: found, deleted, and by the log alone.

deltalake looks through the directory too (`full`), or at what the log removed. Each has a table of
its own; both must find the same number of files and leave the same.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from deltalake import DeltaTable as RustTable

from benchmarks.delta_spark_turns import compare_medians, take_turns
from benchmarks.measuring import Comparison, seconds, show
from benchmarks.synthetic_logs import (
    CHECKPOINT_VERSION,
    build_add,
    build_remove,
    table_with_checkpoint,
    write_commit,
)
from engine.commands.model import Vacuum
from engine.operations.result import Plan
from engine.operations.run import run
from engine.table import DeltaTable

FILES, REPETITIONS, _REAL = 100_000, 5, 3
_LONG_AGO = 1_600_000_000


def measure(files: int = FILES, repetitions: int = REPETITIONS) -> list[Comparison]:
    """Dry and real, by the directory and by the log."""
    results: list[Comparison] = []
    for lite in (False, True):
        with tempfile.TemporaryDirectory() as scratch:
            tables = {name: _Table(Path(scratch) / name, files) for name in _ENGINES}
            for dry in (True, False):
                ways = {
                    name: partial(table.turn, _ENGINES[name], lite, dry)
                    for name, table in tables.items()
                }
                what = f"B9 VACUUM{' LITE' if lite else ''} of {files:,} files, half unneeded"
                times = take_turns(ways, repetitions if dry else _REAL, warm_up=1)
                results += compare_medians(
                    f"{what}, {'dry run' if dry else 'real'}", times, ["deltalake"]
                )
    return results


class _Table:
    """A table whose files are links to an old one, so that those deleted are soon there again."""

    def __init__(self, place: Path, files: int) -> None:
        self._place, live, dead = place, range(files // 2), range(files // 2, files)
        table_with_checkpoint(place, files // 2 - 1)
        removals = [{"remove": build_remove(number)} for number in dead]
        write_commit(place, CHECKPOINT_VERSION + 2, removals)
        self._old = [place.with_suffix(kind) for kind in (".live", ".dead")]
        for old in self._old:
            old.write_bytes(b"PAR1")
        for file in [*self._old, *(place / "_delta_log").iterdir()]:
            os.utime(file, (_LONG_AGO, _LONG_AGO))
        live_paths, self._dead = (
            [str(place / build_add(number)["path"]) for number in numbers]
            for numbers in (live, dead)
        )
        for path in [*live_paths, *self._dead]:
            Path(path).parent.mkdir(exist_ok=True)
        for path in live_paths:
            os.link(self._old[0], path)

    def turn(self, vacuum: "_Vacuum", lite: bool, dry: bool) -> float:
        """Seconds of a run; it must find, or delete, every file that is not needed, and no other."""
        for path in self._dead:
            with suppress(FileExistsError):
                os.link(self._old[1], path)
        took, found = vacuum(str(self._place), lite, dry)
        left = [old.stat().st_nlink - 1 for old in self._old]
        assert left == [len(self._dead), len(self._dead) if dry else 0], left  # noqa: S101
        assert found in {None, len(self._dead)}, found  # noqa: S101
        return took


def _ours(place: str, lite: bool, dry: bool) -> tuple[float, int | None]:
    table = DeltaTable.open(place)
    found: list[Plan | None] = []
    took = seconds(lambda: found.append(run(Vacuum(lite=lite), table, None, dry_run=dry).plan))
    return took, None if found[0] is None else found[0].file_count


def _theirs(place: str, lite: bool, dry: bool) -> tuple[float, int | None]:
    table = RustTable(place)
    found: list[str] = []
    took = seconds(lambda: found.extend(table.vacuum(dry_run=dry, full=not lite)))
    return took, len(found) if dry else None


_Vacuum = Callable[[str, bool, bool], tuple[float, int | None]]
_ENGINES: dict[str, _Vacuum] = {"engine": _ours, "deltalake": _theirs}

if __name__ == "__main__":
    show(measure())
