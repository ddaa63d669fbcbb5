"""What delta-spark takes, in an environment of its own: this imports nothing of the repository.

`python delta_spark_peer.py statements|frames JARS SCRATCH PLAN` writes one line of JSON; `turns` writes
one for each line that it reads.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession


def main(part: str, jars: str, scratch: str, plan: str) -> None:
    """Do a part, and write what it took."""
    spark = _session(Path(jars), Path(scratch))
    took = _PARTS[part](spark, scratch, json.loads(plan))
    sys.stdout.write(json.dumps(took) + "\n")


def statements(spark: SparkSession, scratch: str, work: dict[str, Any]) -> dict[str, Any]:
    """Seconds by kind of small statement, what the writers of one file landed, and a sum of ids."""
    _few_rows(spark, f"{scratch}/small", work["rows"])
    took = {}
    for kind, texts in work["statements"].items():
        times = [
            seconds_of(lambda text=text: do(spark, text, f"{scratch}/small")) for text in texts
        ]
        took[kind] = median(times[work["warm_up"] :])
    _few_rows(spark, f"{scratch}/writers", work["rows"])
    began = time.perf_counter()
    with ThreadPoolExecutor(len(work["writers"])) as pool:
        count = sum(
            pool.map(
                lambda texts: count_landed(spark, texts, f"{scratch}/writers"), work["writers"]
            )
        )
    spent = time.perf_counter() - began
    total = sum_of_ids(spark, f"{scratch}/small")
    return {"took": took, "landed": count, "seconds": spent, "sum": total}


def frames(spark: SparkSession, scratch: str, work: dict[str, Any]) -> dict[str, Any]:
    """Seconds of merging a DataFrame and of reading a table, with and without a deletion vector."""
    small, large = f"{scratch}/small", f"{scratch}/large"
    _fill(spark, small, work["target"])

    def merge(turn: int) -> None:
        source = spark.range(turn, turn + work["source"]).selectExpr("id * 7 AS id", "2.5D AS v")
        source.createOrReplaceTempView("s")
        text = (
            "MERGE INTO {table} AS t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
            " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        )
        do(spark, text, small)

    def scan(_turn: int) -> None:
        rows = spark.read.format("delta").load(large)
        rows.selectExpr("sum(id)", "max(name)", "sum(v)").collect()

    def warm(action: Callable[[int], None]) -> float:
        turns = range(work["repetitions"] + work["warm_up"])
        times = [seconds_of(lambda turn=turn: action(turn)) for turn in turns]
        return median(times[work["warm_up"] :])

    took = {"merge": warm(merge), "sum": sum_of_ids(spark, small)}
    _fill(spark, large, work["read"])
    took["read"] = warm(scan)
    do(spark, "DELETE FROM {table} WHERE id % 1000 = 7", large)
    took["masked"] = warm(scan)
    return took


def turns(spark: SparkSession, _scratch: str, _work: dict[str, Any]) -> dict[str, Any]:
    """Do statements when asked, `{"sql": [...]}` a line: their seconds, and the last one's rows."""
    for line in sys.stdin:
        began = time.perf_counter()
        rows: list[list[Any]] = []
        for text in json.loads(line)["sql"]:
            rows = [list(row) for row in spark.sql(text).collect()]
        took = time.perf_counter() - began
        sys.stdout.write(json.dumps({"took": took, "rows": rows}, default=str) + "\n")
        sys.stdout.flush()
    return {}


def seconds_of(action: Callable[[], None]) -> float:
    """How long one run takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def do(spark: SparkSession, text: str, place: str) -> None:
    """Run a statement on the table at a place."""
    spark.sql(text.format(table=f"delta.`{place}`")).collect()


def sum_of_ids(spark: SparkSession, place: str) -> int:
    """Of what the table at a place holds."""
    return int(spark.read.format("delta").load(place).agg({"id": "sum"}).collect()[0][0])


def count_landed(spark: SparkSession, texts: list[str], place: str) -> int:
    """How many of a writer's statements were committed; the others lost to another writer."""
    count = 0
    for text in texts:
        try:
            do(spark, text, place)
            count += 1
        except Exception as error:
            if not any(word in str(error).lower() for word in _LOST):
                raise
    return count


def _few_rows(spark: SparkSession, place: str, rows: int) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{place}` (id BIGINT, name STRING, v DOUBLE) USING delta"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    frame = spark.range(0, rows, 1, 1).selectExpr("id", "'a' AS name", "0.5D AS v")
    frame.write.format("delta").mode("append").save(place)


def _fill(spark: SparkSession, place: str, rows: int) -> None:
    frame = spark.range(0, rows, 1, 2).selectExpr(
        "id", "concat('name ', CAST(id % 1000 AS STRING)) AS name", "0.5D AS v"
    )
    writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.mode("append").save(place)


def _session(jars: Path, scratch: Path) -> SparkSession:
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }
    builder = SparkSession.builder.master("local[2]").appName("delta-spark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


_LOST = ("concurrent", "failed to commit transaction")
"""How delta-spark and Sail say it."""

_PARTS = {"statements": statements, "frames": frames, "turns": turns}

if __name__ == "__main__":
    main(*sys.argv[1:5])
