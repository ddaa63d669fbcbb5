"""Compacting many small files: OPTIMIZE's Arrow on the executors against Spark's own way."""

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measuring import Comparison, seconds, show
from benchmarks.spark_lake import local_session, table_of_small_files
from engine.commands.model import Optimize
from engine.operations.run import run

FILES, ROWS, TARGETS = 200, 25_000, 4


def measure() -> list[Comparison]:
    """The same rows and the same number of files in the end."""
    spark = local_session()
    with tempfile.TemporaryDirectory() as scratch:
        pairs = [_once(spark, Path(scratch) / f"t{turn}") for turn in range(2)]
    ours, other = (min(pair) for pair in zip(*pairs, strict=True))
    what = f"compact {FILES} files of {ROWS:,} rows into {TARGETS}, commit included"
    return [Comparison(what, ours, "Spark read-coalesce-write, no commit", other, "s")]


def _once(spark: SparkSession, place: Path) -> tuple[float, float]:
    """Seconds of both ways over the same files; Spark's goes first, so that it changes nothing."""
    table = table_of_small_files(place, FILES, ROWS, {})
    snapshot = table.snapshot()
    paths = [str(place / name) for name in snapshot.files().column("path").to_pylist()]
    result = str(place / "plain")
    other = seconds(lambda: spark.read.parquet(*paths).coalesce(TARGETS).write.parquet(result))
    command = Optimize(target_size_bytes=snapshot.size_bytes // TARGETS + 1)
    return seconds(lambda: run(command, table, spark)), other


if __name__ == "__main__":
    show(measure())
