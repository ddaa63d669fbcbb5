"""B12: UPDATE, DELETE and MERGE of 1, 100 and 1,000 rows by the library, without Spark, beside deltalake.

Each changes a table of its own, in turns and warm; the rows left are compared. A tenth of a MERGE's
rows are new where it has ten or more. They are given to both as Arrow, and to ours as VALUES too.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake

from benchmarks.delta_spark_turns import compare_medians, take_turns
from benchmarks.measuring import Comparison, seconds, show
from engine.operations.run import run
from engine.table import DeltaTable
from tests.engine.other_engines import deltalake_rows

SIZES, ROWS, REPETITIONS, WARM_UP = (1, 100, 1_000), 100_000, 9, 2
_VALUES = "MERGE of VALUES"
_PARTS = {"UPDATE": 0, "DELETE": ROWS // 4, "MERGE": ROWS // 2, _VALUES: 3 * ROWS // 4}
"""From which row on a kind changes rows."""
_MERGE = (
    "MERGE INTO t USING {} ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
)


def measure() -> list[Comparison]:
    """Each kind and size."""
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = (_fill_table(Path(scratch) / name) for name in ("engine", "deltalake"))
        for kind, begin in _PARTS.items():
            for size in SIZES:
                starts = {name: count(begin, size) for name in ("engine", "deltalake")}
                ways = {
                    "engine": partial(_time_ours, ours, kind, size, starts["engine"]),
                    "deltalake": partial(_time_theirs, theirs, kind, size, starts["deltalake"]),
                }
                times = take_turns(ways, REPETITIONS, WARM_UP)
                what = f"B12 {kind} of {size:,} row{'s'[: size - 1]} of {ROWS:,}, warm"
                results += compare_medians(what, times, ["deltalake"])
                begin = next(starts["engine"])
        assert _rows(ours) == _rows(theirs)  # noqa: S101
    return results


def _time_ours(place: str, kind: str, size: int, starts: "count[int]") -> float:
    start = next(starts)
    within = f"id >= {start} AND id < {start + size}"
    merged = ", ".join(f"({key}, 7.5D)" for key in _keys(start, size))
    sources = {"s": _build_source(start, size)} if kind == "MERGE" else {}
    text = {
        "UPDATE": f"UPDATE t SET v = v + 1 WHERE {within}",
        "DELETE": f"DELETE FROM t WHERE {within}",
        "MERGE": _MERGE.format("s"),
        _VALUES: _MERGE.format(f"(VALUES {merged}) AS s (id, v)"),
    }[kind]
    return seconds(lambda: run(text, DeltaTable.open(place), sources=sources))


def _time_theirs(place: str, kind: str, size: int, starts: "count[int]") -> float:
    start = next(starts)
    within = f"id >= {start} AND id < {start + size}"
    source = _build_source(start, size)
    ways: dict[str, Callable[[RustTable], object]] = {
        "UPDATE": lambda table: table.update({"v": "v + 1"}, predicate=within),
        "DELETE": lambda table: table.delete(within),
        "MERGE": lambda table: (
            table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update({"v": "s.v"})
            .when_not_matched_insert({"id": "s.id", "v": "s.v"})
            .execute()
        ),
    }
    ways[_VALUES] = ways["MERGE"]
    return seconds(lambda: ways[kind](RustTable(place)))


def _build_source(start: int, size: int) -> pa.Table:
    return pa.table({"id": pa.array(_keys(start, size), pa.int64()), "v": [7.5] * size})


def _keys(start: int, size: int) -> list[int]:
    """Those of a range, a tenth of them beyond the table."""
    return [key + ROWS * (key % 10 == 9 and size > 1) for key in range(start, start + size)]


def _fill_table(place: Path) -> str:
    rows = {"id": pa.array(range(ROWS), pa.int64()), "name": ["a"] * ROWS, "v": [0.5] * ROWS}
    properties = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(place), pa.table(rows), configuration=properties)
    return str(place)


def _rows(place: str) -> list[tuple[int, float]]:
    return sorted((row["id"], row["v"]) for row in deltalake_rows(place))


if __name__ == "__main__":
    show(measure())
