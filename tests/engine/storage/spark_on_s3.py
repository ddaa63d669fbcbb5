"""Every operation on tables in an S3 server, on Spark with Hadoop's connector; prints its results as JSON.

It is a separate program because the connector must be on the class path when the JVM starts.
`python -m tests.engine.storage.spark_on_s3 BUCKET OPTIONS JARS_HOME LAYOUT…` takes the options of
the store as JSON.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from engine.commands.sql import parse_statement
from engine.errors import EngineError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.session import build_session
from engine.spark.table_files import TableFiles
from engine.storage.connectors import connector_jars
from engine.table import DeltaTable
from tests.engine.storage.mortal_proxy import mortal_proxy

SCHEMA = StructType(
    (StructField("id", LONG), StructField("day", STRING), StructField("note", STRING))
)
LAYOUTS: Mapping[str, tuple[list[str], dict[str, str]]] = {
    "plain": ([], {"delta.enableDeletionVectors": "false"}),
    "vectors": ([], {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}),
    "partitioned": (["day"], {"delta.columnMapping.mode": "name"}),
}
STATEMENTS = (
    "INSERT INTO t VALUES (1, 'a b', 'x'), (2, 'a b', 'y'), (3, 'c/d', 'z'), (4, 'c/d', 'ü')",
    "INSERT INTO t SELECT id + 10 AS id, day, note FROM t",
    "UPDATE t SET note = concat(note, '!') WHERE id % 2 = 0",
    "DELETE FROM t WHERE id = 3",
    "MERGE INTO t USING t AS s ON t.id = s.id + 10 WHEN MATCHED THEN UPDATE SET note = s.note"
    " WHEN NOT MATCHED THEN INSERT (id, day, note) VALUES (s.id + 20, s.day, s.note)",
    "OPTIMIZE t",
    "RESTORE t TO VERSION AS OF 2",
    "DELETE FROM t WHERE id = 14",
    "REORG TABLE t APPLY (PURGE)",
    "ALTER TABLE t ADD COLUMNS (extra int)",
    "VACUUM t",
)


def main(bucket: str, options: dict[str, str], home: str, layouts: Sequence[str]) -> dict[str, Any]:
    """Run every layout and both wrong secrets; return the results."""
    spark = build_session("s3", master="local[2]", jars=connector_jars(Path(home)))
    try:
        errors = _errors(spark, f"{bucket}-other/t", options)
        seen = {
            layout: _story(spark, f"{bucket}/{layout} t", layout, options) for layout in layouts
        }
        claims = _claim_sizes(spark, f"{bucket}/claims", options)
        away = _away(spark, f"{bucket}-away/t", options)
    finally:
        spark.stop()
    return {**seen, "errors": errors, "claims": claims, "away": away}


def _story(spark: SparkSession, uri: str, layout: str, options: dict[str, str]) -> dict[str, Any]:
    partitions, properties = LAYOUTS[layout]
    table = DeltaTable.create(
        uri,
        SCHEMA,
        partition_columns=partitions,
        properties=properties,
        storage_options=options,
    )
    for statement in STATEMENTS:
        run(
            parse_statement(statement),
            table,
            spark,
            RunOptions(in_process_bytes=0),
            resolve=lambda _: table,
        )
    rows = table.snapshot().to_arrow().sort_by("id").to_pylist()
    return {"version": table.version(), "rows": rows}


def _errors(spark: SparkSession, uri: str, options: dict[str, str]) -> dict[str, str]:
    """Return the errors for a secret that is wrong from the start, and for one that is wrong on Spark only."""
    wrong = {**options, "aws_secret_access_key": "wrong"}
    table = DeltaTable.create(uri, SCHEMA, storage_options=options)
    run(parse_statement("INSERT INTO t VALUES (1, 'a', 'b')"), table, None)
    errors = {}
    try:
        DeltaTable.open(uri, wrong)
    except EngineError as error:
        errors["log"] = str(error)
    for_spark = DeltaTable(table.store, storage_options=wrong)
    update = parse_statement("UPDATE t SET note = 'c' WHERE id = 1")
    try:
        run(update, for_spark, spark, RunOptions(in_process_bytes=0))
    except EngineError as error:
        errors["spark"] = str(error)
    return {**errors, "version after": str(table.version())}


def _claim_sizes(spark: SparkSession, uri: str, options: dict[str, str]) -> list[int]:
    """Return how many rows Spark reads if the log claims a wrong size of the only file."""
    table = DeltaTable.create(uri, SCHEMA, storage_options=options)
    run(parse_statement("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'a', 'y')"), table, None)
    files = TableFiles(uri, SCHEMA, storage_options=options)
    (add,) = table.snapshot().add_files()
    counts = []
    for size in (1, add.size // 2, add.size, 2 * add.size):
        lie = msgspec.structs.replace(add, size=size)
        counts.append(scan(spark, files, ScanRequest([lie])).count())
    return counts


def _away(spark: SparkSession, uri: str, options: dict[str, str]) -> dict[str, Any]:
    """Run an UPDATE while the endpoint stops in the middle of a file, and again after it is back."""
    update = parse_statement("UPDATE t SET note = concat(note, '!') WHERE id > 2")
    with mortal_proxy(options["aws_endpoint_url"]) as (address, proxy):
        table = DeltaTable.create(
            uri, SCHEMA, storage_options={**options, "aws_endpoint_url": address}
        )
        for rows in ("(1, 'a', 'x'), (2, 'a', 'y')", "(3, 'a', 'x'), (4, 'a', 'y')"):
            run(parse_statement("INSERT INTO t VALUES " + rows), table, None)  # noqa: S608 - rows from here
        proxy.die_at(1)
        try:
            run(update, table, spark, RunOptions(in_process_bytes=0))
            told = {}
        except EngineError as error:
            told = {"code": error.code, "text": str(error)}
        proxy.live()
        told |= {"dropped": proxy.dropped, "version": table.version()}
        run(update, table, spark, RunOptions(in_process_bytes=0))
        rows = table.snapshot().to_arrow().sort_by("id").to_pylist()
        return {**told, "rerun": table.version(), "notes": [row["note"] for row in rows]}


if __name__ == "__main__":
    bucket, options, home, *layouts = sys.argv[1:]
    sys.stdout.write(json.dumps(main(bucket, json.loads(options), home, layouts)))
