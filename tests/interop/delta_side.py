"""delta-spark, driven by JSON lines: a phase of the sweep on one JVM, in its own environment.

Run by `tests.interop.sweep`. It reads one request a line and answers each with one line.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.interop.rows import THREADS, canonical_rows

EXTENSIONS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
SETTINGS = {
    **EXTENSIONS,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "false",
    "spark.databricks.delta.identityColumn.enabled": "true",
    "spark.databricks.delta.commitInfo.merge.includeExtraParams": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # many statements over few rows: compiling costs more than it saves
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
_CLASS = re.compile(r"[\['](\w*[A-Z]_[A-Z_]+)(?:\.\w+)?[\]']")


def build_session(jars: Path, scratch: Path) -> SparkSession:
    """Build a local session with delta-spark's jars."""
    builder = SparkSession.builder.master("local[2]").appName("interop")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))))
    builder = builder.config("spark.sql.warehouse.dir", (scratch / "warehouse").as_uri())
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Read, run the statements, read again, and answer the questions; errors are part of the answer."""
    place = request["table"]
    said: dict[str, Any] = {"case": request["case"]}
    if request["read_before"]:
        said["before"] = _attempt(lambda: _read(spark, place))
    said["steps"] = []
    for statement in request["statements"]:
        outcome = _attempt(lambda sql=statement: _do(spark, sql, place))
        said["steps"].append({"statement": str(statement), **outcome})
        if "error" in outcome:
            break
    said["after"] = _attempt(lambda: _read(spark, place))
    said["answers"] = {
        name: _attempt(lambda sql=query: _ask(spark, sql, place))
        for name, query in request["queries"].items()
    }
    return said


def _do(spark: SparkSession, statement: str | dict[str, Any], place: str) -> None:
    if isinstance(statement, str):
        spark.sql(statement.replace("{t}", f"delta.`{place}`").replace("{path}", place)).collect()
        return
    rows = spark.sql(statement["append"])
    rows.write.format("delta").mode("append").options(**statement["options"]).save(place)


def _read(spark: SparkSession, place: str) -> list[str]:
    return canonical_rows(spark.read.format("delta").load(place).collect())


def _ask(spark: SparkSession, query: str, place: str) -> list[str]:
    if query == "checksum":
        return _validate_checksum(spark, place)
    columns, _, statement = query.rpartition(" << ")
    frame = spark.sql(statement.replace("{t}", f"delta.`{place}`").replace("{path}", place))
    return canonical_rows((frame.selectExpr(*columns.split(", ")) if columns else frame).collect())


def _validate_checksum(spark: SparkSession, place: str) -> list[str]:
    """Run delta-spark's own comparison of the newest checksum file with the computed state."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, place)
    snapshot = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
    present = snapshot.checksumOpt().isDefined()
    nothing = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    return [f"present={present}", f"valid={snapshot.validateChecksum(nothing)}"]


def _attempt(action: Any) -> dict[str, Any]:
    try:
        return {"ok": action()}
    except Exception as error:  # noqa: BLE001 - whatever it is goes back to the sweep
        text = str(error)
        classes = sorted(set(_CLASS.findall(text)))  # of all its causes
        return {"error": f"{type(error).__name__}: {text[:600]}", "classes": classes}


def main(jars: str, scratch: str, requests: Iterable[str], answers: Any) -> None:
    """Answer requests until there are no more."""
    spark = build_session(Path(jars), Path(scratch))
    versions = {"spark": spark.version, "java": spark._jvm.System.getProperty("java.version")}
    print(json.dumps(versions), file=answers, flush=True)
    with ThreadPoolExecutor(THREADS) as pool:
        for answered in pool.map(lambda line: answer(spark, json.loads(line)), requests):
            print(json.dumps(answered), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Java and Python chatter goes to the log, answers have a stream of their own
    main(sys.argv[1], sys.argv[2], sys.stdin, own)
