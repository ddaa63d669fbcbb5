"""DELETE of scattered rows: by deletion vectors against rewriting the files."""

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.delta_spark_turns import compare_medians, take_turns
from benchmarks.measuring import Comparison, seconds, show
from benchmarks.spark_lake import local_session, table_of_small_files
from engine.commands.model import Delete
from engine.operations.run import run

FILES, ROWS = 8, 1_000_000
_VECTORS = {"engine": "true", "by rewriting": "false"}


def measure() -> list[Comparison]:
    """Time of each turn, of other rows, and the bytes written in all."""
    spark = local_session()
    with tempfile.TemporaryDirectory() as scratch:
        places = {way: Path(scratch) / vectors for way, vectors in _VECTORS.items()}
        tables = {
            way: table_of_small_files(
                place, FILES, ROWS, {"delta.enableDeletionVectors": _VECTORS[way]}
            )
            for way, place in places.items()
        }

        def delete(way: str, numbers: Iterator[int]) -> float:
            command = Delete(where=f"id % 10007 = {next(numbers)}")
            return seconds(lambda: run(command, tables[way], spark))

        before = {way: _size(place) for way, place in places.items()}
        times = take_turns({way: partial(delete, way, count()) for way in places})
        written = {way: (_size(place) - before[way]) / 1e6 for way, place in places.items()}
    what = f"delete 1 row in 10,007 of {FILES} files of {ROWS:,} rows, by vectors"
    others = [way for way in _VECTORS if way != "engine"]
    bytes_written = [
        Comparison(f"{what}: bytes written", written["engine"], other, written[other], "MB")
        for other in others
    ]
    return compare_medians(what, times, others) + bytes_written


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


if __name__ == "__main__":
    show(measure())
