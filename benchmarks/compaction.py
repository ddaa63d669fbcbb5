"""B13: OPTIMIZE of many small files, ZORDER and clustering, beside delta-spark, and Spark's own way.

Each turn has tables of its own, whose data files are links to the same ones; the rows left are compared.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.delta_spark_turns import Peer, compare_medians, peers, take_turns
from benchmarks.measuring import Comparison, seconds, show
from benchmarks.spark_lake import local_session, table_of_small_files
from engine.commands.model import Optimize
from engine.delta import enable
from engine.operations.run import run
from engine.table import DeltaTable

FILES, ROWS, TARGETS, REPETITIONS = 200, 50_000, 4, 3
_PLAIN = "Spark read-coalesce-write, no commit"
_LEFT = "SELECT count(*), sum(id), min(value), max(value), count(DISTINCT name) FROM delta.`{}`"
_SIZE = "SET spark.databricks.delta.optimize.maxFileSize = {}"


@dataclass(frozen=True)
class _Way:
    """What OPTIMIZE is to do, and by which columns the table is clustered."""

    what: str
    zorder_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()


_WAYS = (
    _Way("OPTIMIZE"),
    _Way("OPTIMIZE ZORDER BY two columns", zorder_by=("name", "value")),
    _Way("OPTIMIZE of a table clustered by two columns", clustered_by=("name", "value")),
)


def measure(files: int = FILES, rows: int = ROWS) -> list[Comparison]:
    """Seconds of each kind, the commit included."""
    spark = local_session()
    enable(spark)
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        others = peers(stack, Path(scratch), ["delta-spark"])
        for way in _WAYS:
            place = Path(scratch) / way.what
            table = table_of_small_files(
                place, files, rows, {"delta.enableDeletionVectors": "false"}, way.clustered_by
            )
            tables = _Tables(place, table.snapshot().size_bytes // TARGETS + 1)
            ways: dict[str, Callable[[], float]] = {"engine": partial(tables.ours, spark, way)}
            for name, peer in others.items():
                ways[name] = partial(tables.theirs, peer, way)
            if way == _WAYS[0]:
                ways[_PLAIN] = partial(tables.plain, spark)
            times = take_turns(ways, REPETITIONS, 1)
            tables.check(spark, with_peers=bool(others))
            what = f"B13 {way.what}, {files} files, {files * rows:,} rows"
            results += compare_medians(what, times, [name for name in ways if name != "engine"])
    return results


class _Tables:
    """Copies of one table, and the latest of them that each side has changed."""

    def __init__(self, original: Path, size_bytes: int) -> None:
        self._original, self._size_bytes = original, size_bytes
        self._numbers = count()
        self._ours = self._theirs = original

    def ours(self, spark: SparkSession, way: _Way) -> float:
        """By this engine."""
        self._ours = self._link_copy()
        table = DeltaTable.open(str(self._ours))
        command = Optimize(zorder_by=way.zorder_by, target_size_bytes=self._size_bytes)
        return seconds(lambda: run(command, table, spark))

    def theirs(self, peer: Peer, way: _Way) -> float:
        """By delta-spark."""
        self._theirs = self._link_copy()
        peer.ask(sql=[_SIZE.format(self._size_bytes)])
        order = f" ZORDER BY ({', '.join(way.zorder_by)})" if way.zorder_by else ""
        return float(peer.ask(sql=[f"OPTIMIZE delta.`{self._theirs}`{order}"])["took"])

    def plain(self, spark: SparkSession) -> float:
        """Read and write the same files by Spark alone."""
        place = self._link_copy()
        paths = [str(path) for path in place.glob("*.parquet")]
        result = str(place / "plain")
        return seconds(lambda: spark.read.parquet(*paths).coalesce(TARGETS).write.parquet(result))

    def check(self, spark: SparkSession, *, with_peers: bool) -> None:
        """Check that the rows are unchanged, in few files."""
        before = [list(row) for row in spark.sql(_LEFT.format(self._original)).collect()]
        places = [self._ours, self._theirs] if with_peers else [self._ours]
        for place in places:
            after = [list(row) for row in spark.sql(_LEFT.format(place)).collect()]
            files = DeltaTable.open(str(place)).snapshot().file_count
            assert before == after, (place, before, after)  # noqa: S101
            assert files <= 3 * TARGETS, (place, files)  # noqa: S101

    def _link_copy(self) -> Path:
        place = self._original.with_name(f"copy {next(self._numbers)} of {self._original.name}")
        shutil.copytree(self._original, place, copy_function=_link_data)
        return place


def _link_data(source: str, target: str) -> str:
    if source.endswith(".parquet") and "_delta_log" not in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
    return target


if __name__ == "__main__":
    show(measure())
