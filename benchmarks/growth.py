"""B18: how the time of an operation grows with a table's files, its versions and its writers.

Every table is synthetic but for the rows that are changed. Writes `docs/growth.md`; the results show
how much a tenfold table costs at most, beside the ten that would be linear.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from math import log
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.growth_chart import draw_curves, what_grows
from benchmarks.measuring import Comparison, seconds, show
from benchmarks.synthetic_logs import (
    build_add,
    table_with_checkpoint,
    table_with_commits,
    write_commit,
)
from engine.actions.files import AddFile
from engine.commands.model import Delete, SetProperties
from engine.operations.run import run
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.table import DeltaTable

FILES = (1_000, 10_000, 100_000, 1_000_000)
VERSIONS = (10, 100, 1_000, 10_000, 100_000)
WRITERS = (1, 2, 4, 8, 16, 32)
REPETITIONS, _TURNS, _EACH, _ROWS = 5, 3, 8, 10_000
_SCHEMA = StructType((StructField("id", PrimitiveType("long"), nullable=True),))
_APPENDS = "appends"
_PAGE = Path(__file__).parent.parent / "docs" / "growth.md"
Curve = dict[int, dict[str, float]]
"""Milliseconds of each operation, by size."""


def measure(
    files: Sequence[int] = FILES, versions: Sequence[int] = VERSIONS, page: Path = _PAGE
) -> list[Comparison]:
    """Every curve; the page is written anew."""
    curves = {
        "Live files, in one checkpoint": _curve(table_with_checkpoint, files),
        "Versions, without a checkpoint": _curve(table_with_commits, versions),
        "Threads that write to one table": {
            writers: _measure_writers(writers) for writers in WRITERS
        },
    }
    write_page(curves, page)
    return [
        Comparison(
            f"B18 {title.lower()}: {operation}, what ten times as many multiply it by at most",
            10**power,
            "linear",
            10.0,
            "times",
        )
        for title, curve in curves.items()
        for operation in next(iter(curve.values()))
        if (power := _power([(size, times[operation]) for size, times in curve.items()]))
        is not None
    ]


def write_page(curves: Mapping[str, Curve], page: Path) -> None:
    """Write the tables, and the picture beside the page if its library is installed."""
    picture = page.with_suffix(".svg")
    shown = f"\n![The same as curves]({picture.name})\n" if draw_curves(curves, picture) else ""
    sections = "".join(_section(*named) for named in curves.items())
    page.write_text(_HEAD + shown + sections + _WHY_WRITERS, "utf-8")


def _curve(make: Callable[[Path, int], Path], sizes: Sequence[int]) -> Curve:
    curve: Curve = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            curve[size] = _operations(make(Path(scratch) / "t", size), size)
    return curve


def _operations(place: Path, size: int) -> dict[str, float]:
    """Return the shortest times; refresh, append and DELETE start with a used handle."""
    opened = _shortest(lambda: DeltaTable.open(str(place)).snapshot().file_count)
    table = DeltaTable.open(str(place))
    vectors = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1000000"}
    run(SetProperties(vectors), table, None)
    for day in ("real", "new"):
        (place / f"day={day}").mkdir()
    _append(table, _rows(place / "day=real" / "rows.parquet", "real"))
    times = []
    for number in range(REPETITIONS):
        write_commit(place, table.version() + 1, [{"add": build_add(2 * size + number)}])
        times.append(seconds(table.version))
    appended, row = count(), count()
    return {
        "open": opened,
        "refresh by one commit": min(times) * 1000,
        "append": _shortest(
            lambda: _append(table, _rows(place / "day=new" / f"{next(appended)}.parquet", "new"))
        ),
        "DELETE of one row": _shortest(
            lambda: _delete(table, f"day = 'real' AND id = {next(row)}")
        ),
    }


def _measure_writers(writers: int) -> dict[str, float]:
    """Milliseconds until all of so many threads are done, the shortest of several times."""
    return {
        f"each thread {deed} {_EACH} times": 1000
        * min(_time_writers(writers, deed) for _ in range(_TURNS))
        for deed in (_APPENDS, "deletes one row")
    }


def _time_writers(writers: int, deed: str) -> float:
    """Every commit must land."""
    with tempfile.TemporaryDirectory() as scratch:
        place = str(DeltaTable.create(f"{scratch}/t", _SCHEMA).uri)
        _append(DeltaTable.open(place), _rows(Path(place) / "rows.parquet"))

        def work(writer: int) -> None:
            table = DeltaTable.open(place)
            for turn in range(writer * _EACH, (writer + 1) * _EACH):
                if deed == _APPENDS:
                    _append(table, _rows(Path(place) / f"{turn}.parquet"))
                else:
                    _delete(table, f"id = {turn}")

        with ThreadPoolExecutor(writers) as pool:
            took = seconds(lambda: list(pool.map(work, range(writers))))
        landed = DeltaTable.open(place).version() - 1
        assert landed == writers * _EACH, landed  # noqa: S101
        return took


def _shortest(action: Callable[[], object]) -> float:
    return min(seconds(action) for _ in range(REPETITIONS)) * 1000


def _append(table: DeltaTable, add: AddFile) -> None:
    txn = table.start_transaction()
    txn.stage(add)
    txn.commit("WRITE", {"mode": "Append"})


def _delete(table: DeltaTable, condition: str) -> None:
    done = run(Delete(where=condition), table, None)
    assert done.metrics["numDeletedRows"] == 1, done.metrics  # noqa: S101


def _rows(file: Path, day: str | None = None) -> AddFile:
    """Return a new file of rows."""
    pq.write_table(pa.table({"id": pa.array(range(_ROWS), pa.int64())}), file)
    bounds = f'"minValues":{{"id":0}},"maxValues":{{"id":{_ROWS - 1}}},"nullCount":{{"id":0}}'
    return AddFile(
        path=file.name if day is None else f"day={day}/{file.name}",
        partition_values={} if day is None else {"day": day},
        size=file.stat().st_size,
        modification_time=0,
        data_change=True,
        stats=f'{{"numRecords":{_ROWS},{bounds}}}',
    )


def _power(points: Sequence[tuple[int, float]]) -> float | None:
    """Return the steepest step as a power of the size: 1 is linear, and 0 at least.

    Steps that end below 10 ms do not count: None if there is no other.
    """
    steps = [
        log(after / before) / log(larger / smaller)
        for (smaller, before), (larger, after) in pairwise(points)
        if after >= 10
    ]
    return max(0.0, *steps) if steps else None


_HEAD = """# Growth

`make bench S=B18` generates this page, in one process on the machine named in
[the results](../benchmarks/results.md). The first two tables show milliseconds for one operation, the last
one milliseconds until all threads are done; each figure is the shortest of several runs. The power is the
steepest step between two sizes that ends at 10 ms or more: 1 is linear in the size, 0 is constant, and
– means that no step ends at 10 ms or more. A power above 1.2 is called superlinear.
"""
_WHY_WRITERS = f"""
Each thread commits {_EACH} times, one after the other: 8 threads make {8 * _EACH} commits, and
all succeed. An append writes a file of {_ROWS:,} rows, and all deleted rows are in one file. A power of 1
would mean that the number of commits per second does not depend on the number of threads. It is higher for
two reasons:

- Each commit is checked against all commits made since it read, and more threads make more
  such commits.
- Python's lock lets one thread of a process work at a time, so these checks do not run in parallel.

To write faster, use several processes, which do not wait for one another's lock
([threads and processes compared](../benchmarks/results.md#concurrent-writers)), and put more rows into
fewer commits.
"""


def _section(title: str, curve: Curve) -> str:
    operations = list(next(iter(curve.values())))
    rows = [
        f"| {size:,} | " + " | ".join(f"{times[name]:,.1f}" for name in operations) + " |"
        for size, times in curve.items()
    ]
    powers = {
        name: _power([(size, times[name]) for size, times in curve.items()]) for name in operations
    }
    shown = ["–" if power is None else f"{power:.2f}" for power in powers.values()]
    steep = [name for name, power in powers.items() if power is not None and power > 1.2]
    said = f"Superlinear: {', '.join(steep)}." if steep else "Nothing is superlinear."
    lines = [
        f"\n## {title}\n",
        f"| {what_grows(title)} | {' | '.join(operations)} |",
        "|---:" * (len(operations) + 1) + "|",
        *rows,
        f"| power | {' | '.join(shown)} |",
        f"\n{said}\n",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    show(measure())
