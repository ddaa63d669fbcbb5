"""delta-spark at small statements, in an environment of its own: it imports nothing of this repository.

`python small_peer.py JARS SCRATCH` writes one line of JSON: seconds by statement, and what eight
writers of other rows of one file came to.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession


def main(jars: str, scratch: str, plan: str) -> None:
    """Run the plan: statements of each kind, then the writers."""
    spark, work = _session(Path(jars), Path(scratch)), json.loads(plan)
    _fill(spark, Path(scratch) / "small", work["rows"])
    took = {}
    for kind, statements in work["statements"].items():
        times = []
        for statement in statements:
            began = time.perf_counter()
            spark.sql(statement.format(table=f"delta.`{scratch}/small`")).collect()
            times.append(time.perf_counter() - began)
        took[kind] = median(times[work["warm_up"] :])
    _fill(spark, Path(scratch) / "writers", work["rows"])
    began = time.perf_counter()
    with ThreadPoolExecutor(len(work["writers"])) as pool:
        landed = sum(pool.map(lambda texts: _landed(spark, texts, scratch), work["writers"]))
    spent = time.perf_counter() - began
    left = spark.read.format("delta").load(f"{scratch}/small").agg({"id": "sum"}).collect()[0][0]
    result = {"took": took, "landed": landed, "seconds": spent, "sum": left}
    sys.stdout.write(json.dumps(result) + "\n")


def _landed(spark: SparkSession, statements: list[str], scratch: str) -> int:
    landed = 0
    for statement in statements:
        try:
            spark.sql(statement.format(table=f"delta.`{scratch}/writers`")).collect()
            landed += 1
        except Exception as error:
            if "concurrent" not in str(error).lower():
                raise
    return landed


def _fill(spark: SparkSession, place: Path, rows: int) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{place}` (id BIGINT, name STRING, v DOUBLE) USING delta"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.range(0, rows, 1, 1).selectExpr("id", "'a' AS name", "0.5D AS v").write.format(
        "delta"
    ).mode("append").save(str(place))


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
    builder = SparkSession.builder.master("local[2]").appName("small")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    main(*sys.argv[1:4])
