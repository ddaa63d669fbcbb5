"""Commits to a local log, one after another: what a commit costs without its data."""

import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable as RustTable
from deltalake.transaction import AddAction

from benchmarks.measuring import Comparison, show
from engine.actions.files import AddFile
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.table import DeltaTable

COMMITS = 200
_ROUNDS = 2
_SCHEMA = StructType((StructField("id", PrimitiveType("long"), nullable=True),))


def measure(commits: int = COMMITS) -> list[Comparison]:
    """Measure commits per second. This engine syncs each commit before it returns."""
    with tempfile.TemporaryDirectory() as scratch:
        ways = (
            _engine_commit(Path(scratch) / "engine"),
            _deltalake_commit(Path(scratch) / "deltalake"),
        )
        rates = [[_rate(commit, commits // _ROUNDS) for commit in ways] for _ in range(_ROUNDS)]
    ours, other = (max(side) for side in zip(*rates, strict=True))
    what = "commits of one file, checkpoints every 10 for this engine"
    return [Comparison(what, ours, "deltalake (no fsync)", other, "/s", more_is_better=True)]


def _rate(commit: Callable[[], None], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        commit()
    return count / (time.perf_counter() - began)


def _engine_commit(place: Path) -> Callable[[], None]:
    table = DeltaTable.create(str(place), _SCHEMA)

    def commit() -> None:
        name = _touch(place)
        txn = table.start_transaction()
        txn.stage(
            AddFile(
                path=name,
                partition_values={},
                size=4,
                modification_time=0,
                data_change=True,
                stats='{"numRecords":1}',
            )
        )
        txn.commit("WRITE", {"mode": "Append"})

    return commit


def _deltalake_commit(place: Path) -> Callable[[], None]:
    table = RustTable.create(str(place), schema=pa.schema([("id", pa.int64())]))

    def commit() -> None:
        add = AddAction(
            path=_touch(place),
            size=4,
            partition_values={},
            modification_time=0,
            data_change=True,
            stats='{"numRecords":1}',
        )
        table.create_write_transaction([add], mode="append", schema=table.schema())

    return commit


def _touch(place: Path) -> str:
    name = f"{uuid.uuid4()}.parquet"
    (place / name).write_bytes(b"PAR1")
    return name


if __name__ == "__main__":
    show(measure())
