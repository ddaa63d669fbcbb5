"""Statements that change a row or a few of a small table, and eight writers of one file.

Each engine does the same statements on a table of its own, warm; the rows left are compared. deltalake
is always there; delta-spark is fetched by Maven, Sail from the package index, and left out aloud where
they cannot be.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from benchmarks.measuring import Comparison, seconds, show
from engine.commands.sql import parse_statement
from engine.errors import ConflictError
from engine.operations.run import run
from engine.table import DeltaTable
from tests.engine.other_engines import deltalake_rows
from tests.interop.fetch import OutOfReachError, fetch_delta_spark, fetch_sail

ROWS, REPETITIONS, WARM_UP, WRITERS, EACH = 10_000, 12, 3, 8, 6
_COUNT = REPETITIONS + WARM_UP


@dataclass(frozen=True)
class Outcome:
    """Median seconds by kind of statement, what the writers landed in how long, and a sum of ids."""

    took: Mapping[str, float]
    landed: int
    seconds: float
    sum: int


def statements() -> dict[str, list[str]]:
    """Return the statements of each kind, with `{table}` for the table."""
    keys = [list(range(start, start + _COUNT)) for start in (100, 300, 500)]
    return {
        "UPDATE of one row": [f"UPDATE {{table}} SET v = 1 WHERE id = {key}" for key in keys[0]],
        "DELETE of one row": [f"DELETE FROM {{table}} WHERE id = {key}" for key in keys[1]],
        "MERGE of ten rows": [_merge(1000 + 20 * number) for number in range(_COUNT)],
    }


def writers() -> list[list[str]]:
    """Return each writer's statements: rows that no other touches, in one file."""
    return [
        [f"UPDATE {{table}} SET v = 2 WHERE id = {writer * 100 + turn}" for turn in range(EACH)]
        for writer in range(WRITERS)
    ]


def measure() -> list[Comparison]:
    """Measure this engine beside each of the others."""
    with tempfile.TemporaryDirectory() as scratch:
        ours = _engine(Path(scratch) / "engine")
        others = {"deltalake": _deltalake(Path(scratch) / "deltalake")}
        for name, way in {"delta-spark": _delta_spark, "Sail": _sail}.items():
            try:
                others[name] = way(Path(scratch) / name)
            except OutOfReachError as reason:
                sys.stderr.write(f"{name} is left out: {reason}\n")
    results = []
    for name, other in others.items():
        assert other.sum == ours.sum, f"{name} left other rows"  # noqa: S101
        results += [
            Comparison(f"{kind} of {ROWS:,}, warm", ours.took[kind], name, other.took[kind], "s")
            for kind in statements()
        ]
        what = f"{WRITERS} writers × {EACH} updates of other rows of one file"
        results += [
            Comparison(f"{what}: landed", ours.landed, name, other.landed, "", more_is_better=True),
            Comparison(
                f"{what}: landed a second",
                ours.landed / ours.seconds,
                name,
                other.landed / other.seconds,
                "/s",
                more_is_better=True,
            ),
        ]
    return results


def _merge(start: int) -> str:
    rows = ", ".join(f"({start + 2 * number}, 7.0D)" for number in range(10))
    return (
        f"MERGE INTO {{table}} AS t USING (SELECT * FROM VALUES {rows} AS s (id, v)) AS s"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )


def _engine(place: Path) -> Outcome:
    def do(table: DeltaTable, text: str) -> bool:
        try:
            run(parse_statement(_ours(text)), table, None)
        except ConflictError:
            return False
        return True

    small, shared = _fill_table(place / "small"), _fill_table(place / "writers")
    return _measure_writer(
        lambda text: do(DeltaTable.open(str(small)), text),
        lambda: (table := DeltaTable.open(str(shared))) and (lambda text: do(table, text)),
        lambda: pc.sum(DeltaTable.open(str(small)).snapshot().to_arrow()["id"]).as_py(),
    )


def _ours(text: str) -> str:
    text = text.format(table="t").replace("INTO t AS t", "INTO t")
    return text.replace("(SELECT * FROM VALUES", "(VALUES").replace(
        " AS s (id, v)) AS s", ") AS s (id, v)"
    )


def _deltalake(place: Path) -> Outcome:
    def do(where: Path, text: str) -> bool:
        table = RustTable(str(where))
        key = text.rpartition("= ")[2]
        try:
            if text.startswith("DELETE"):
                table.delete(f"id = {key}")
            elif text.startswith("UPDATE"):
                table.update(
                    {"v": text.partition("v = ")[2].partition(" ")[0]}, predicate=f"id = {key}"
                )
            else:
                _rust_merge(table, text)
        except (CommitFailedError, DeltaError):
            return False
        return True

    small, shared = _fill_table(place / "small"), _fill_table(place / "writers")
    return _measure_writer(
        lambda text: do(small, text),
        lambda: lambda text: do(shared, text),
        lambda: sum(row["id"] for row in deltalake_rows(str(small))),
    )


def _rust_merge(table: RustTable, text: str) -> None:
    ids = [
        int(part.partition(",")[0].strip("( ")) for part in text.split("VALUES ")[1].split("), (")
    ]
    source = pa.table({"id": ids, "v": [7.0] * len(ids)})
    merging = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    updating = merging.when_matched_update({"v": "s.v"})
    updating.when_not_matched_insert({"id": "s.id", "v": "s.v"}).execute()


def _measure_writer(
    do: Callable[[str], bool],
    writer: Callable[[], Callable[[str], bool]],
    total: Callable[[], int],
) -> Outcome:
    took = {}
    for kind, texts in statements().items():
        times = [seconds(lambda text=text: do(text)) for text in texts]
        took[kind] = median(times[WARM_UP:])
    began = time.perf_counter()
    with ThreadPoolExecutor(WRITERS) as pool:
        landed = sum(pool.map(lambda texts: _count_landed(writer(), texts), writers()))
    return Outcome(took, landed, time.perf_counter() - began, total())


def _count_landed(do: Callable[[str], bool], texts: Sequence[str]) -> int:
    return sum(map(do, texts))


def _fill_table(place: Path, *, vectors: bool = True) -> Path:
    rows = {"id": pa.array(range(ROWS), pa.int64()), "name": ["a"] * ROWS, "v": [0.5] * ROWS}
    properties = {"delta.enableDeletionVectors": str(vectors).lower()}
    write_deltalake(str(place), pa.table(rows), configuration=properties)
    return place


def _delta_spark(place: Path) -> Outcome:
    peer = fetch_delta_spark()
    place.mkdir(parents=True)
    arguments = ["statements", str(peer.jars), str(place), json.dumps(_plan())]
    return _run_peer(peer.python, "delta_spark_peer.py", *arguments)


def _sail(place: Path) -> Outcome:
    """Sail writes no deletion vectors, and its tables have none."""
    tables = {name: str(_fill_table(place / name, vectors=False)) for name in ("small", "shared")}
    return _run_peer(fetch_sail(), "sail_peer.py", "statements", json.dumps(_plan() | tables))


def _plan() -> dict[str, object]:
    said = {"statements": statements(), "writers": writers()}
    return {"rows": ROWS, "warm_up": WARM_UP, **said}


def _run_peer(python: Path, script: str, *arguments: str) -> Outcome:
    command = [str(python), str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)  # noqa: S603 - ourselves
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    return Outcome(**json.loads(line))


if __name__ == "__main__":
    show(measure())
