"""A PySpark program: MERGE of a DataFrame of 1,000 rows, and whole reads, beside delta-spark.

Both run warm in a session of their own; the rows left are compared. delta-spark is fetched by Maven,
and the part is left out aloud where it cannot be.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.measuring import Comparison, seconds, show
from benchmarks.spark_lake import local_session
from engine.delta import enable
from engine.delta.tables import DeltaTable
from tests.interop.fetch import OutOfReachError, fetch_delta_spark

TARGET, SOURCE, READ_ROWS, REPETITIONS, WARM_UP = 10_000, 1_000, 4_000_000, 7, 2


def measure() -> list[Comparison]:
    """Measure this engine, delta-spark and plain Parquet."""
    with tempfile.TemporaryDirectory() as scratch:
        ours = _ours(Path(scratch) / "engine")
        results = [
            Comparison(
                f"read {READ_ROWS:,} rows", ours["read"], "spark.read.parquet", ours["plain"], "s"
            )
        ]
        try:
            theirs = _theirs(Path(scratch) / "delta-spark")
        except OutOfReachError as reason:
            sys.stderr.write(f"delta-spark is left out: {reason}\n")
            return results
    assert theirs["sum"] == ours["sum"], "delta-spark left other rows"  # noqa: S101
    what = f"MERGE of a DataFrame of {SOURCE:,} rows into {TARGET:,}, warm"
    return [
        Comparison(what, ours["merge"], "delta-spark", theirs["merge"], "s"),
        *results,
        Comparison(f"read {READ_ROWS:,} rows", ours["read"], "delta-spark", theirs["read"], "s"),
        Comparison(
            f"read {READ_ROWS:,} rows, some deleted by a vector",
            ours["masked"],
            "delta-spark",
            theirs["masked"],
            "s",
        ),
    ]


def _ours(place: Path) -> dict[str, float]:
    spark = local_session()
    enable(spark)
    small, large = place / "small", place / "large"
    _fill(spark, small, TARGET, "true")
    table = DeltaTable.forPath(spark, str(small))

    def merge(turn: int) -> None:
        source = spark.range(turn, turn + SOURCE).selectExpr("id * 7 AS id", "2.5D AS v")
        merging = table.alias("t").merge(source.alias("s"), "t.id = s.id")
        updating = merging.whenMatchedUpdate(set={"v": "s.v"})
        updating.whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()

    took = {"merge": _warm(merge)}
    took["sum"] = table.toDF().agg({"id": "sum"}).collect()[0][0]
    _fill(spark, large, READ_ROWS, "true")
    took["read"] = _warm(lambda _: _scan(spark, "delta", large))
    took["plain"] = _warm(lambda _: _scan(spark, "parquet", large))
    DeltaTable.forPath(spark, str(large)).delete("id % 1000 = 7")
    took["masked"] = _warm(lambda _: _scan(spark, "delta", large))
    return took


def _warm(action: object) -> float:
    times = [seconds(lambda turn=turn: action(turn)) for turn in range(REPETITIONS + WARM_UP)]  # type: ignore[operator] # a function of the turn
    return median(times[WARM_UP:])


def _scan(spark: SparkSession, kind: str, place: Path) -> None:
    rows = spark.read.format(kind).load(str(place))
    rows.selectExpr("sum(id)", "max(name)", "sum(v)").collect()


def _fill(spark: SparkSession, place: Path, rows: int, vectors: str) -> None:
    frame = spark.range(0, rows, 1, 2).selectExpr(
        "id", "concat('name ', CAST(id % 1000 AS STRING)) AS name", "0.5D AS v"
    )
    writer = frame.write.format("delta").option("delta.enableDeletionVectors", vectors)
    writer.mode("append").save(str(place))


def _theirs(place: Path) -> dict[str, float]:
    peer = fetch_delta_spark()
    place.mkdir(parents=True)
    plan = {"target": TARGET, "source": SOURCE, "read": READ_ROWS}
    plan |= {"repetitions": REPETITIONS, "warm_up": WARM_UP}
    script = Path(__file__).with_name("delta_spark_peer.py")
    command = [
        str(peer.python),
        str(script),
        "frames",
        str(peer.jars),
        str(place),
        json.dumps(plan),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)  # noqa: S603 - ourselves
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


if __name__ == "__main__":
    show(measure())
