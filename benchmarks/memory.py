"""B17: memory of the driver: opening, and a DELETE in 10,000 files of a table of a million.

Each runs in a process of its own, and what counts is by how much its peak grew; where Spark runs, its
JVM's whole peak counts too. The files deleted from are links to one. deltalake rewrites them.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable as RustTable
from pyspark.sql import SparkSession

from benchmarks.measuring import (
    Comparison,
    peak_megabytes,
    report_usage,
    run_in_process,
    show,
)
from benchmarks.spark_lake import local_session
from benchmarks.synthetic_logs import (
    CHECKPOINT_VERSION,
    DAYS,
    build_add,
    enable_deletion_vectors,
    table_with_checkpoint,
)
from engine.commands.model import Delete
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.table import DeltaTable

FILES, TOUCHED, MANY = 1_000_000, 10_000, 10_000_000
_ROWS = 1000
_CONDITION = "day IN ({}) AND id % 1000 = 5"


def measure(files: int = FILES, touched: int = TOUCHED, many: int = MANY) -> list[Comparison]:
    """Measure a DELETE in Arrow, by Spark and by deltalake; then opening ten times the files."""
    with tempfile.TemporaryDirectory() as scratch:
        one = Path(scratch) / "one.parquet"
        pq.write_table(pa.table({"id": pa.array(range(_ROWS), pa.int64())}), one)
        days = ", ".join(f"'d{day}'" for day in _days(files, touched))
        used = {
            way: _usage(way, _table(Path(scratch) / way, one, files, touched), days)
            for way in ("arrow", "spark", "deltalake")
        }
        small = _usage("open", _table(Path(scratch) / "small", one, files, 0), "")
        large = _usage("open", _table(Path(scratch) / "large", one, many, 0), "")
    what = f"B17 DELETE of a row in each of {touched:,} files of a table of {files:,}: peak memory"
    slopes = (
        f"B17 open a table of {many:,} files: peak memory of each million of files",
        large * 1e6 / many,
        f"at {files:,} files",
        small * 1e6 / files,
    )
    return [
        Comparison(f"{what}, {way}", used[key], "deltalake", used["deltalake"], "MB")
        for key, way in (("arrow", "in process"), ("spark", "by Spark, its JVM with it"))
    ] + [Comparison(*slopes, "MB")]


def _usage(way: str, place: Path, days: str) -> float:
    return run_in_process("benchmarks.memory", way, str(place), days)["megabytes"]


def _table(place: Path, one: Path, files: int, touched: int) -> Path:
    """Create a table of missing files, except for those of the first days."""
    table_with_checkpoint(place, files, size_bytes=one.stat().st_size)
    if place.name != "deltalake":
        enable_deletion_vectors(place, CHECKPOINT_VERSION + 2)
    days = _days(files, touched)
    for number in range(files) if days else ():
        if number % DAYS in days:
            link = place / build_add(number)["path"]
            link.parent.mkdir(exist_ok=True)
            os.link(one, link)
    return place


def _days(files: int, touched: int) -> range:
    """Those whose files there are; the first has one more in the log."""
    return range(1, 1 + touched * DAYS // files)


def _open(place: str, _days: str) -> object:
    snapshot = DeltaTable.open(place).snapshot()
    return snapshot, snapshot.file_count


def _delete(place: str, days: str, spark: SparkSession | None = None) -> object:
    table = DeltaTable.open(place)
    options = RunOptions() if spark is None else RunOptions(in_process_bytes=0)
    result = run(Delete(where=_CONDITION.format(days)), table, spark, options=options)
    assert result.metrics["numDeletedRows"] == _count_deleted(days), result.metrics  # noqa: S101
    return result


def _delete_by_deltalake(place: str, days: str) -> object:
    metrics = RustTable(place).delete(_CONDITION.format(days))
    assert metrics["num_deleted_rows"] == _count_deleted(days), metrics  # noqa: S101
    return metrics


def _count_deleted(days: str) -> int:
    return len(days.split(",")) * FILES // DAYS


_WAYS: dict[str, Callable[[str, str], object]] = {
    "open": _open,
    "arrow": _delete,
    "deltalake": _delete_by_deltalake,
}


def _here(way: str, place: str, days: str) -> None:
    if way != "spark":
        report_usage(lambda: _WAYS[way](place, days))
        return
    spark = local_session()
    jvm = spark.sparkContext._gateway.proc.pid
    report_usage(lambda: _delete(place, days, spark), beside=lambda: peak_megabytes(jvm))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        _here(*sys.argv[1:])
    else:
        show(measure())
