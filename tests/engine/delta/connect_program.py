"""A program of Spark Connect, run by `test_connect.py` in a separate process.

One process supports only one kind of session. The program starts a Connect server from the pyspark
package, uses the API, and prints its observations as JSON.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddFile
from engine.delta import enable
from engine.delta.exceptions import DeltaConcurrentModificationException
from engine.delta.tables import DeltaTable
from engine.errors import RequestError
from engine.protocol.properties import TableProperties
from engine.schema.types import LONG, StructField, StructType
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.transaction.observer import TransactionObserver

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


class _Meanwhile(TransactionObserver):
    def __init__(self, act):
        self._act = act

    def staged(self, txn):  # noqa: ARG002
        act, self._act = self._act, lambda: None
        act()


def main(place: Path) -> dict[str, object]:
    builder = SparkSession.builder.remote("local[2]").appName("connect")
    for key, value in {**_SETTINGS, "spark.sql.warehouse.dir": str(place / "warehouse")}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    seen: dict[str, object] = {"session": type(spark).__module__}
    table = _create_table(spark, place / "t")
    table.delete(F.col("key") == "d")
    table.delete("regexp_like(key, '^c$') and value = 3")
    table.update(F.udf(lambda key: key == "b", "boolean")("key"), {"value": F.col("value") * 10})
    seen["rows"] = _rows(table.toDF())
    seen["merge"] = _rows(_upsert(table, _source(spark, [("a", 7), ("e", 5)])))
    seen["merged"] = _rows(table.toDF())
    by_identity = _source(spark, [("e", 50)])
    merging = table.merge(by_identity, table.toDF()["key"] == by_identity["key"])
    merging.whenMatchedUpdate(set={"value": by_identity["value"]}).execute()
    seen["by identity"] = _rows(table.toDF())
    seen["conflicts"] = _overlap(spark, _create_table(spark, place / "overlap"))
    seen["own source"] = _own_source(spark, table)
    seen["views"] = _views(spark, table)
    seen["errors"] = _errors(spark, table, place)
    seen["upkeep"] = _upkeep(spark, table, place)
    seen["enabled"] = _use_enabled_session(enable(spark, retries=1), place / "enabled")
    seen["NaN"] = _not_a_number(spark, place / "nan")
    seen["by id"] = _read_by_id(spark, place / "by_id")
    spark.stop()
    return seen


def _create_table(spark, place):
    table = DeltaTable.create(spark).location(str(place)).addColumn("key", "string")
    table = table.addColumn("value", "bigint").execute()
    rows = _source(spark, [("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    table.merge(rows, "false").whenNotMatchedInsertAll().execute()
    return table


def _source(spark, rows):
    return spark.createDataFrame(rows, "key string, value bigint").alias("s")


def _upsert(table, source):
    merging = table.alias("t").merge(source, "t.key = s.key")
    return merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _rows(frame):
    return sorted([list(row) for row in frame.collect()], key=repr)


def _overlap(spark, table):
    first = table.observed(_Meanwhile(lambda: table.delete("key = 'b'")))
    return len(_upsert(first, _source(spark, [("a", 8)])).resolved)


def _own_source(spark, table):
    seen = table.toDF().where("key = 'a'").alias("s")
    table.update("key = 'a'", {"value": "9"})
    try:
        _upsert(table, seen)
    except DeltaConcurrentModificationException as error:
        return error.code
    return "missed"


def _views(spark, table):
    """Merge from a view over the table itself, which is refused, and from a view over other rows."""
    _source(spark, [("a", 30)]).createOrReplaceTempView("others")
    table.toDF().where("key = 'a'").createOrReplaceTempView("own")
    _upsert(table, spark.table("others").alias("s"))
    try:
        _upsert(table, spark.sql("SELECT * FROM own").alias("s"))
    except AnalysisException as error:
        return [_rows(table.toDF().where("key = 'a'")), "at which version" in str(error)]
    return "missed"


def _errors(spark, table, place):
    codes = []
    for act in (
        lambda: table.delete("nosuch = 1"),
        lambda: DeltaTable.forPath(spark, str(place / "none")),
        lambda: DeltaTable.create(spark).location(str(place / "t")).addColumn("a", "int").execute(),
    ):
        try:
            act()
        except AnalysisException as error:
            codes.append(error.getCondition())
    return codes


def _upkeep(spark, table, place):
    results = {"optimized": table.optimize().executeCompaction().first().metrics.numFilesAdded}
    results["restored"] = table.restoreToVersion(1).columns[0]
    results["vacuumed"] = len(table.vacuum().collect())
    results["operation"] = table.history(1).first().operation
    results["format"] = table.detail().first().format
    _source(spark, [("x", 1)]).write.parquet(str(place / "parquet"))
    converted = DeltaTable.convertToDelta(spark, f"parquet.`{place / 'parquet'}`")
    results["converted"] = _rows(converted.toDF())
    return results


def _use_enabled_session(spark, place):
    """Use readers, writers and the engine's own statements in an enabled session."""
    rows = spark.createDataFrame([(1, "mon"), (2, "tue")], "n int, day string")
    path = str(place / "days")
    rows.write.format("delta").partitionBy("day").save(path)
    rows.write.format("delta").mode("append").save(path)
    changes = spark.createDataFrame([(1, "sun"), (3, "fri")], "n int, day string").alias("s")
    rows.write.format("delta").saveAsTable("days")
    merging = changes.mergeInto("days", F.col("days.n") == F.col("s.n"))
    merging.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    spark.table("days").where("n = 3").writeTo("days").append()
    results = {"read": _rows(spark.read.format("delta").option("versionAsOf", 0).load(path))}
    results["path"] = spark.read.format("delta").load(f"{path}@v1").count()
    results["name"] = _rows(spark.table("days"))
    results["history"] = spark.sql("DESCRIBE HISTORY days LIMIT 1").first().operation
    spark.sql("DELETE FROM days WHERE n = 2")
    spark.sql(f"UPDATE delta.`{path}` SET n = n + 10")  # noqa: S608 - a path of this test
    results["changed"] = _rows(spark.table("days")), _rows(DeltaTable.forPath(spark, path).toDF())
    results["statements"] = _run_statements(spark, place)
    results["plain"] = spark.sql("SELECT 1 AS one").first().one
    spark.range(2).write.parquet(str(place / "plain"))
    results["plain read"] = spark.read.parquet(str(place / "plain")).count()
    return results


def _run_statements(spark, place):
    """Run CREATE TABLE, INSERT and MERGE as text, with Delta tables and the server's views as sources."""
    spark.sql("CREATE TABLE made (n INT, day STRING) USING delta PARTITIONED BY (day)")
    spark.sql(f"CREATE TABLE placed (n INT) USING delta LOCATION '{place}/placed' COMMENT 'here'")
    spark.sql("INSERT INTO made VALUES (1, 'mon'), (2, 'tue')")
    spark.sql("INSERT INTO made (day, n) SELECT day, n + 10 FROM days WHERE n = 1")
    spark.createDataFrame([(2, "TUE"), (5, "wed")], "n int, day string").createTempView("news")
    spark.sql("INSERT INTO placed SELECT n FROM news")
    counts = spark.sql(
        "MERGE INTO made t USING news ON t.n = news.n"
        " WHEN MATCHED THEN UPDATE SET day = news.day WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("MERGE INTO made USING days s ON made.n = s.n + 10 WHEN MATCHED THEN DELETE")
    spark.sql("CREATE OR REPLACE TABLE taken USING delta AS SELECT n FROM made WHERE n > 1")
    refused = ""
    try:
        spark.sql("INSERT INTO placed SELECT made.n FROM made JOIN news ON made.n = news.n")
    except AnalysisException as error:
        refused = error.getCondition()
    tables = [_rows(spark.table(name)) for name in ("made", "placed", "taken")]
    spark.sql("CREATE VIEW over_made AS SELECT n FROM made")  # only a classic session can read it
    try:
        spark.table("over_made").collect()
        view = "read"
    except AnalysisException as error:
        view = str(error)
    return [_rows(counts), *tables, refused, "engine.delta.enable(spark)" in view]


def _not_a_number(spark, place):
    """Filter on NaN, which Parquet's bounds leave out and therefore must not decide."""
    values = [(1.0,), (float("nan"),), (2.0,), (None,)]
    rows = spark.createDataFrame(values, "x double").coalesce(1)
    rows = rows.selectExpr("x", "named_struct('y', cast(x AS float)) AS inside")
    rows.write.format("delta").save(str(place))
    frame = spark.read.format("delta").load(str(place))
    conditions = ("x > 5", "x = double('NaN')", "inside.y > 5", "x < 5", "x IS NOT NULL")
    counts = [frame.filter(condition).count() for condition in conditions]
    table = DeltaTable.forPath(spark, str(place))
    return [*counts, table.delete(F.col("x") > F.lit(5)).metrics["numDeletedRows"]]


def _read_by_id(spark, place):
    """Read a file by column ids, where another column has the name of the table's column."""
    place.mkdir()
    columns = [("other", "1"), ("id", "2")]
    schema = pa.schema(
        [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": n}) for name, n in columns]
    )
    pq.write_table(pa.table([[3, 30], [0, 0]], schema=schema), place / "a.parquet")
    marked = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
    by_id = TableProperties.parse({"delta.columnMapping.mode": "id"})
    fields = StructType((StructField("id", LONG, metadata=marked),))
    table = TableFiles(str(place), fields, properties=by_id)
    size = (place / "a.parquet").stat().st_size
    add = AddFile(
        path="a.parquet", partition_values={}, size=size, modification_time=0, data_change=True
    )
    refusal = ""
    try:
        scan(spark, table, ScanRequest([add]))
    except RequestError as error:
        refusal = error.remedy
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    return [refusal, _rows(scan(spark, table, ScanRequest([add])).filter("id > 5"))]


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(Path(sys.argv[1]))) + "\n")
