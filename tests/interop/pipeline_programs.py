"""Programs of DataFrames, streams and the catalog, for both engines; `pipelines.sql` has the statements.

Each step's rows, or the class of its error, are compared by `test_pipelines`. Both sides import this
module: it needs PySpark alone.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

STATEMENTS = Path(__file__).with_name("pipelines.sql")
Api = Any
"""The module `delta.tables` of one of the engines."""
Attempt = Callable[[str, Callable[[], object]], None]


class Lake:
    """The resources of a program: a session with its own database, a directory, and the engine's API."""

    def __init__(
        self, spark: SparkSession, api: Api, database: str, place: str, attempt: Attempt
    ) -> None:
        self.spark, self.api, self.database, self.place = spark, api, database, place
        self._attempt, self._steps = attempt, 0

    def attempt(self, *calls: Callable[[], object], label: str = "") -> None:
        """Make each call; its outcome is a step of the program."""
        for call in calls:
            self._steps += 1
            self._attempt(label or f"step {self._steps}", call)

    def path(self, name: str) -> str:
        return f"{self.place}/{name}"

    def frame(self, *rows: tuple[Any, ...], schema: str = "id int, v string") -> DataFrame:
        return self.spark.createDataFrame(list(rows), schema)

    def load(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def count_files(self, table: str) -> DataFrame:
        return self.spark.sql(f"DESCRIBE DETAIL {table}").select("numFiles")

    def stream(self) -> DataFrame:
        """Return a stream of two rows."""
        self.frame((1, "a"), (2, "b")).write.format("delta").mode("overwrite").save(
            self.path("rows")
        )
        return self.spark.readStream.format("delta").load(self.path("rows"))

    def run_stream(self, writer: Any, name: str, table: str = "") -> Callable[[], None]:
        """Return a call that runs a stream to its end, by default into the path of its options."""
        ready = writer.option("checkpointLocation", self.path(f"{name}.checkpoint"))
        ready = ready.trigger(availableNow=True)
        return lambda: (ready.toTable(table) if table else ready.start()).awaitTermination()


Program = Callable[[Lake], None]
PROGRAMS: dict[str, Program] = {}
"""Programs by `kind: title`."""


def program(title: str) -> Callable[[Program], Program]:
    def add(function: Program) -> Program:
        PROGRAMS[title] = function
        return function

    return add


def read_statements() -> dict[str, list[str]]:
    """Return the programs of `pipelines.sql` by `kind: title`."""
    programs: dict[str, list[str]] = {}
    for line in STATEMENTS.read_text("utf-8").splitlines()[2:]:
        if line.startswith("-- "):
            programs[line.removeprefix("-- ")] = []
        elif line:
            programs[list(programs)[-1]].append(line.removesuffix(";"))
    return programs


@program("catalog: createTable")
def create_tables(lake: Lake) -> None:
    spark, catalog, place = lake.spark, lake.spark.catalog, lake.path("t")
    lake.frame((1, "a")).write.format("delta").save(place)
    schema = StructType().add("id", "integer").add("w", "string")
    lake.attempt(
        lambda: catalog.createTable("c1", path=place, source="delta"),
        lambda: catalog.createExternalTable("c2", path=place, source="delta"),
        lambda: spark.table("c2"),
        lambda: catalog.createTable("c3", source="delta", schema=schema, description="described"),
        lambda: spark.sql("INSERT INTO c3 VALUES (1, 'z')"),
        lambda: spark.table("c3"),
        lambda: catalog.getTable("c3").description,
        lambda: catalog.createTable("c4", path=place, source="delta", schema=schema),
        lambda: catalog.createTable("c3", source="delta", schema=schema),
        lambda: catalog.createTable(
            "c5",
            source="delta",
            schema=schema,
            path=lake.path("new"),
            **{"delta.appendOnly": "true"},
        ),
        lambda: spark.sql("SHOW TBLPROPERTIES c5 ('delta.appendOnly')"),
    )


@program("catalog: listColumns and getTable")
def list_tables(lake: Lake) -> None:
    spark, catalog = lake.spark, lake.spark.catalog
    spark.sql(
        "CREATE TABLE p (id INT COMMENT 'the id', v STRING, d STRING NOT NULL) USING delta"
        " PARTITIONED BY (d) COMMENT 'a table'"
    )
    spark.sql("CREATE TABLE k (id INT, v STRING) USING delta CLUSTER BY (id)")
    lake.attempt(
        lambda: catalog.listColumns("p"),
        lambda: catalog.listColumns(f"{lake.database}.p"),
        lambda: spark.sql("ALTER TABLE p ADD COLUMNS (w INT COMMENT 'new')"),
        lambda: catalog.listColumns("p"),
        lambda: catalog.listColumns("k"),
        lambda: catalog.getTable("p"),
        lambda: catalog.getTable(f"spark_catalog.{lake.database}.p"),
        lambda: catalog.listTables(),
        lambda: [catalog.tableExists(name) for name in ("p", "nothing")],
        lambda: catalog.getTable("nothing"),
        lambda: catalog.listColumns("nothing"),
        lambda: catalog.refreshTable("p"),
    )


@program("streams: into names and paths")
def name_targets(lake: Lake) -> None:
    spark, stream = lake.spark, lake.stream()
    written = stream.writeStream.format("delta")
    counts = stream.groupBy("v").count().writeStream.format("delta")
    lake.attempt(
        lake.run_stream(written.option("path", lake.path("out")), "a", "o1"),
        lambda: spark.table("o1"),
        lambda: lake.load("out"),
    )
    again = stream.writeStream.format("delta").option("path", lake.path("out"))
    lake.attempt(
        lake.run_stream(again, "b", "o2"),
        lambda: spark.table("o2"),
        lake.run_stream(stream.writeStream, "c", "o3"),
        lambda: spark.table("o3"),
        lake.run_stream(stream.writeStream.format("delta").partitionBy("v"), "d", "o4"),
        lambda: spark.sql("SHOW PARTITIONS o4"),
        lake.run_stream(counts.outputMode("complete"), "e", "o5"),
        lambda: spark.table("o5"),
    )


@program("streams: mergeSchema")
def add_columns(lake: Lake) -> None:
    spark, stream = lake.spark, lake.stream()
    spark.sql("CREATE TABLE o (id INT) USING delta")
    nested = F.struct(F.lit(1).alias("k"), F.lit(2).alias("j"))
    merging = "mergeSchema"
    for name, frame, options in (
        ("a", stream, {}),
        ("b", stream, {merging: "true"}),
        ("c", stream.select("id"), {}),
        ("d", stream.select("id", F.struct(F.lit(1).alias("k")).alias("s")), {merging: "true"}),
        ("e", stream.select("id", nested.alias("s")), {merging: "true"}),
    ):
        writer = frame.writeStream.format("delta").options(**options)
        lake.attempt(lake.run_stream(writer, name, "o"), lambda: spark.table("o"))


@program("streams: what a source does after changes")
def read_changes(lake: Lake) -> None:
    spark = lake.spark
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    spark.sql("DELETE FROM t WHERE id = 1")
    for name, options in (
        ("a", {}),
        ("b", {"startingVersion": "1"}),
        ("c", {"startingVersion": "1", "ignoreDeletes": "true"}),
        ("d", {"startingVersion": "1", "skipChangeCommits": "true"}),
        ("e", {"startingVersion": "latest"}),
    ):
        reader = spark.readStream.format("delta").options(**options).table("t")
        view = f"{lake.database}_{name}"
        writer = reader.writeStream.format("memory").queryName(view)
        lake.attempt(lake.run_stream(writer, name), lambda view=view: spark.table(view))


@program("streams: statements of a batch")
def merge_batches(lake: Lake) -> None:
    spark, stream = lake.spark, lake.stream()
    spark.sql("CREATE TABLE o (id INT, v STRING) USING delta")
    merge = (
        f"MERGE INTO {lake.database}.o t USING news s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )

    def upsert_by_jvm(batch: DataFrame, _number: int) -> None:
        batch.createOrReplaceTempView("news")
        inside: Any = batch
        inside._jdf.sparkSession().sql(merge)

    def upsert(batch: DataFrame, _number: int) -> None:
        batch.withColumn("v", F.upper("v")).createOrReplaceTempView("news")
        batch.sparkSession.sql(merge)

    for name, function in (("jvm", upsert_by_jvm), ("session", upsert)):
        writer = stream.writeStream.foreachBatch(function)
        lake.attempt(lake.run_stream(writer, name), lambda: spark.table("o"))


@program("DataFrame: directory of a partition")
def read_partitions(lake: Lake) -> None:
    rows = lake.frame((1, "a", "x"), (2, "b", "y"), schema="id int, v string, d string")
    rows.write.format("delta").partitionBy("d").save(lake.path("t"))
    for part in ("d=x", "d=q", "d=x/", "v=x", "below"):
        lake.attempt(lambda part=part: lake.load(f"t/{part}"))
    lake.attempt(
        lambda: lake.spark.read.format("delta").option("versionAsOf", 0).load(lake.path("t/d=x")),
        lambda: lake.api.DeltaTable.isDeltaTable(lake.spark, lake.path("t/d=x")),
        lambda: lake.load("t"),
    )


@program("DataFrame: dataChange")
def rearrange(lake: Lake) -> None:
    rows = lake.frame((1, "a"), (2, "b")).repartition(2)
    rows.write.format("delta").save(lake.path("t"))

    def write(mode: str, value: str) -> None:
        frame = lake.load("t").repartition(1) if mode == "overwrite" else lake.frame((3, "c"))
        writer = frame.write.format("delta").mode(mode).option("dataChange", value)
        writer.save(lake.path("t"))

    def read_marks() -> list[Any]:
        log = sorted(Path(lake.path("t/_delta_log")).glob("*.json"))[-1]
        actions = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        kinds = ("add", "remove")
        return sorted((k, a[k]["dataChange"]) for a in actions for k in kinds if k in a)

    for mode, value in (("overwrite", "false"), ("append", "false"), ("append", "x")):
        lake.attempt(lambda mode=mode, value=value: write(mode, value), read_marks)
    lake.attempt(lambda: lake.load("t"))


@program("DataFrame: repartition and coalesce")
def divide_rows(lake: Lake) -> None:
    spark = lake.spark
    rows = spark.range(20).selectExpr("cast(id as int) id", "cast(id % 2 as string) d")
    for number, (frame, partitions) in enumerate(
        (
            (rows.repartition(10), ()),
            (rows.coalesce(1), ()),
            (rows.repartitionByRange(3, "id"), ()),
            (rows.repartition(4, "id"), ()),
            (rows.repartition(3), ("d",)),
            (rows.repartition(10).select("id"), ()),
            (rows.repartition(5).where("id > 3"), ()),
            (lake.frame((1, "a")).repartition(10), ()),
        )
    ):
        place = lake.path(str(number))
        frame.write.format("delta").partitionBy(*partitions).save(place)
        lake.attempt(lambda place=place: lake.count_files(f"delta.`{place}`"))
    for change in (
        lambda: rows.repartition(7).write.format("delta").saveAsTable("t"),
        lambda: rows.repartition(6).write.format("delta").mode("overwrite").saveAsTable("t"),
        lambda: rows.repartition(5).writeTo("t").append(),
        lambda: spark.sql("INSERT INTO t SELECT /*+ REPARTITION(6) */ * FROM t"),
    ):
        change()
        lake.attempt(lambda: lake.count_files("t"))


@program("DataFrame: names of columns")
def qualify_columns(lake: Lake) -> None:
    spark, database, api = lake.spark, lake.database, lake.api
    for name, rows in (("t", [(1, "a"), (2, "b"), (3, "c")]), ("s", [(2, "B"), (4, "D")])):
        lake.frame(*rows).write.format("delta").saveAsTable(name)
    lake.attempt(
        lambda: spark.table("t").select(f"{database}.t.id"),
        lambda: spark.table(f"{database}.t").select(f"spark_catalog.{database}.t.id"),
        lambda: spark.table("t").join(spark.table("s"), "id").select("t.v", f"{database}.s.v"),
        lambda: spark.read.table("t").filter(F.col(f"{database}.t.id") == 2),
        lambda: api.DeltaTable.forName(spark, "t").update("t.id = 3", {"t.v": "'u'"}),
        lambda: api.DeltaTable.forName(spark, "t").delete(f"{database}.t.id = 2"),
        lambda: spark.table("t"),
    )


@program("DataFrame: mergeInto")
def merge_frames(lake: Lake) -> None:
    spark = lake.spark
    for name, rows in (("t", [(1, "a"), (2, "b")]), ("s", [(2, "B"), (4, "D")])):
        lake.frame(*rows).write.format("delta").saveAsTable(name)
    on = F.expr("t.id = s.id")
    news = spark.table("s")
    lake.attempt(
        lambda: (
            news.mergeInto("t", on).whenMatched().updateAll().whenNotMatched().insertAll().merge()
        ),
        lambda: spark.table("t"),
        lambda: news.mergeInto("nothing", F.expr("true")).whenMatched().delete().merge(),
        lambda: news.mergeInto("t", on).merge(),
    )


@program("DataFrame: errors of writers and readers")
def refuse_frames(lake: Lake) -> None:
    rows, place = lake.frame((1, "a")), lake.path("t")
    rows.write.format("delta").partitionBy("v").save(place)

    def write(
        frame: DataFrame = rows, mode: str = "error", to: str = "t", **options: str
    ) -> Callable[[], None]:
        writer = frame.write.format("delta").mode(mode).options(**options)
        return lambda: writer.save(lake.path(to))

    def read(**options: object) -> Callable[[], DataFrame]:
        return lambda: lake.spark.read.format("delta").options(**options).load(place)

    lake.attempt(
        write(),
        write(mode="ignore"),
        write(rows.withColumn("w", rows.id), "append"),
        write(rows.withColumn("w", rows.id), "append", mergeSchema="true"),
        write(mode="overwrite", replaceWhere="v = 'b'"),
        write(mode="overwrite", replaceWhere="zz = 'b'"),
        write(mode="append", mergeSchema="maybe"),
        write(rows.select(), to="e"),
        write(rows.selectExpr("id", "id AS ID"), to="e"),
        write(rows.selectExpr("id AS `a b`"), to="e"),
        lambda: lake.load("t"),
        lambda: lake.load("none"),
        read(versionAsOf=99),
        read(timestampAsOf="2190-01-01"),
        read(timestampAsOf="1990-01-01"),
        read(versionAsOf=0, timestampAsOf="2020-01-01"),
        read(readChangeFeed="true"),
        lambda: rows.write.format("delta").partitionBy("id").mode("append").save(place),
        lambda: rows.write.format("delta").bucketBy(4, "id").saveAsTable("b"),
        lambda: rows.write.format("delta").partitionBy("zz").save(lake.path("e")),
        lambda: rows.write.insertInto("nothing"),
        lambda: rows.writeTo("nothing").append(),
    )


@program("DataFrame: errors of DeltaTable")
def refuse_calls(lake: Lake) -> None:
    spark, api = lake.spark, lake.api.DeltaTable
    lake.frame((1, "a"), (2, "b")).write.format("delta").save(lake.path("t"))
    table = api.forPath(spark, lake.path("t"))
    twice = lake.frame((1, "z"), (1, "y")).alias("s")
    merge = table.alias("t").merge(twice, "t.id = s.id")
    lake.attempt(
        lambda: api.forPath(spark, lake.path("none")),
        lambda: api.forName(spark, "nothing"),
        lambda: table.delete(5),
        lambda: table.update("id = 1"),
        lambda: table.update(set={"id": 5}),
        lambda: table.update(set={"zz": "1"}),
        lambda: table.delete("zz = 1"),
        lambda: table.delete("this is not sql"),
        lambda: table.merge("s", "id = id"),
        lambda: merge.whenMatchedUpdateAll().execute(),
        lambda: merge.execute(),
        lambda: merge.whenMatchedDelete().whenMatchedUpdateAll().execute(),
        lambda: table.vacuum("a"),
        lambda: table.vacuum(0),
        lambda: table.restoreToVersion(99),
        lambda: table.restoreToTimestamp("2190-01-01"),
        lambda: table.optimize().where("id = 1").executeCompaction(),
        lambda: table.optimize().executeZOrderBy("zz"),
        lambda: table.addFeatureSupport("nothing"),
        lambda: table.dropFeatureSupport("nothing"),
        lambda: api.convertToDelta(spark, f"parquet.`{lake.path('none')}`"),
        lambda: table.toDF(),
    )


@program("DataFrame: errors of the builder")
def refuse_definitions(lake: Lake) -> None:
    spark, api = lake.spark, lake.api.DeltaTable
    generator = lake.api.IdentityGenerator
    lake.attempt(
        lambda: api.create(spark).execute(),
        lambda: api.create(spark).tableName(5),
        lambda: api.create(spark).addColumn("a"),
        lambda: api.create(spark).addColumn("a", 5),
        lambda: api.create(spark).addColumn("a", "int", nullable=5),
        lambda: api.create(spark).addColumn("a", "int", generatedAlwaysAs=5),
        lambda: api.create(spark).addColumns([5]),
        lambda: api.create(spark).partitionedBy(["a"], "b"),
        lambda: api.create(spark).property(1, "a"),
        lambda: api.create(spark).tableName("b").addColumn("a", "int").execute(),
        lambda: api.create(spark).tableName("b").addColumn("a", "int").execute(),
        lambda: api.createIfNotExists(spark).tableName("b").addColumn("a", "int").execute(),
        lambda: api.replace(spark).tableName("c").addColumn("a", "int").execute(),
        lambda: api.create(spark).addColumn("a", "bigint", generatedAlwaysAs=generator(1, 0)),
        lambda: api.create(spark).addColumn("a", "int").partitionedBy("z").tableName("d").execute(),
        lambda: spark.sql("DESCRIBE b"),
    )


@program("DataFrame: saveAsTable and save where there is something")
def save_over_tables(lake: Lake) -> None:
    spark, rows, other = lake.spark, lake.frame((1, "a")), lake.frame((2,), schema="q int")
    rows.write.format("delta").save(lake.path("x"))
    rows.write.parquet(lake.path("files"))
    for number, mode in enumerate(("error", "ignore", "append", "overwrite")):
        for frame, place in ((rows, "x"), (other, "x"), (rows, "files"), (rows, f"new{number}")):
            writer = frame.write.format("delta").mode(mode).option("path", lake.path(place))
            name = f"t{number}_{place}_{frame.columns[0]}"
            lake.attempt(
                lambda writer=writer, name=name: writer.saveAsTable(name),
                lambda name=name: spark.table(name),
                lambda: lake.load("x"),
                label=f"{mode} {frame.columns[0]} into {place}",
            )
    rows.write.format("delta").saveAsTable("m")
    for mode in ("error", "ignore", "append", "overwrite"):
        writer = rows.write.format("delta").mode(mode)
        moved = rows.write.format("delta").mode(mode).option("path", lake.path("moved"))
        lake.attempt(
            lambda writer=writer: writer.saveAsTable("m"),
            lambda writer=writer: writer.save(lake.path("files")),
            lambda moved=moved: moved.saveAsTable("m"),
            lambda: spark.table("m"),
            label=f"{mode} again",
        )


@program("DataFrame: save among other files")
def save_among_files(lake: Lake) -> None:
    spark, rows = lake.spark, lake.frame((1, "a"))
    for mode in ("error", "ignore", "append", "overwrite"):
        for files in ("parquet", "text", "hidden", "empty"):
            for call in ("save", "table"):
                place = Path(lake.path(f"{mode}_{files}_{call}"))
                name = place.name
                if files == "parquet":
                    rows.write.parquet(str(place))
                else:
                    place.mkdir()
                if files in {"text", "hidden"}:
                    (place / ("_notes" if files == "hidden" else "notes.txt")).write_text("notes")
                writer = rows.write.format("delta").mode(mode).option("path", str(place))
                lake.attempt(
                    writer.save if call == "save" else partial(writer.saveAsTable, name),
                    lambda name=name: spark.catalog.tableExists(name),
                    lambda place=place, files=files: (
                        (place / "_delta_log" / f"{0:020}.json").exists(),
                        (place / {"text": "notes.txt", "hidden": "_notes"}.get(files, "")).exists(),
                    ),
                    label=f"{mode} {call} among {files}",
                )


@program("DataFrame: writeTo")
def write_to_tables(lake: Lake) -> None:
    spark, rows = lake.spark, lake.frame((1, "a"), (2, "b"))
    more = lake.frame((3, "c", 1), schema="id int, v string, w int")
    lake.attempt(
        lambda: rows.writeTo("t").using("delta").replace(),
        lambda: rows.writeTo("t").using("delta").create(),
        lambda: rows.writeTo("t").using("delta").create(),
        lambda: spark.table("t"),
        lambda: rows.writeTo("t").using("delta").partitionedBy(F.col("v")).createOrReplace(),
        lambda: spark.sql("SHOW PARTITIONS t"),
        lambda: more.writeTo("t").append(),
        lambda: more.writeTo("t").option("mergeSchema", "true").append(),
        lambda: spark.table("t"),
        lambda: rows.withColumn("v", F.lit("c")).writeTo("t").overwritePartitions(),
        lambda: spark.table("t"),
        lambda: rows.writeTo("t").overwrite(F.col("v") == "c"),
        lambda: rows.writeTo("t").overwrite(F.lit(True)),
        lambda: spark.table("t"),
        lambda: (
            rows.writeTo("t").using("delta").tableProperty("delta.appendOnly", "true").replace()
        ),
        lambda: spark.sql("SHOW TBLPROPERTIES t ('delta.appendOnly')"),
        lambda: rows.writeTo("t").overwrite(F.lit(True)),
        lambda: rows.writeTo("t").using("delta").createOrReplace(),
    )


@program("DataFrame: read again after changes")
def read_again(lake: Lake) -> None:
    spark, place = lake.spark, lake.path("t")
    lake.frame((1, "a"), (2, "b")).write.format("delta").save(place)
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{place}'")
    table = lake.api.DeltaTable.forName(spark, "t")
    frames = {
        "load": lake.load("t"),
        "table": spark.table("t"),
        "sql": spark.sql("SELECT id, v FROM t WHERE id > 0"),
        "toDF": table.toDF(),
        "pinned": spark.read.format("delta").option("versionAsOf", 0).load(place),
        "pinned sql": spark.sql("SELECT * FROM t VERSION AS OF 0"),
        "grouped": spark.table("t").groupBy("v").count(),
        "joined": spark.table("t").join(lake.load("t").select("id"), "id"),
    }
    spark.table("t").createOrReplaceTempView("w")
    frames["view"] = spark.table("w")
    spark.table("t").createOrReplaceGlobalTempView(f"g_{lake.database}")
    frames["global view"] = spark.table(f"global_temp.g_{lake.database}")
    for change in (
        "INSERT INTO t VALUES (3, 'c')",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = 'z' WHERE id = 2",
        "INSERT OVERWRITE t VALUES (7, 'q')",
        "OPTIMIZE t",
        "RESTORE t TO VERSION AS OF 1",
        "ALTER TABLE t ADD COLUMNS (n INT)",
        "INSERT INTO t VALUES (8, 'n', 1)",
        "CREATE OR REPLACE TABLE t (v STRING, id INT) USING delta",
        "CREATE OR REPLACE TABLE t (id BIGINT, v STRING) USING delta",
        "CREATE OR REPLACE TABLE t (v STRING) USING delta",
        "DROP TABLE t",
    ):
        spark.sql(change).collect()
        for name, frame in frames.items():
            lake.attempt(lambda frame=frame: frame.select("*"), label=f"{name} after {change}")


@program("DataFrame: frames of the target in a write")
def write_own_rows(lake: Lake) -> None:
    spark = lake.spark
    lake.frame((1, "a"), (2, "b")).write.format("delta").saveAsTable("t")
    frame = spark.table("t")
    frame.createOrReplaceTempView("own")
    merge = "MERGE INTO t USING own s ON t.id = s.id + 1 WHEN NOT MATCHED THEN INSERT *"
    lake.attempt(
        lambda: spark.sql("INSERT INTO t VALUES (3, 'c')"),
        lambda: spark.sql("INSERT INTO t SELECT id + 10, v FROM own"),
        lambda: spark.table("t"),
        lambda: spark.sql(merge),
        lambda: spark.sql(merge),
        lambda: spark.table("t"),
        lambda: frame.where("id < 3").write.format("delta").mode("overwrite").saveAsTable("t"),
        lambda: spark.table("t"),
        lambda: spark.sql("DELETE FROM t WHERE id IN (SELECT max(id) FROM own)"),
        lambda: spark.sql(
            "UPDATE t SET v = 'x' WHERE EXISTS (SELECT 1 FROM own o WHERE o.id = t.id)"
        ),
        lambda: spark.table("t"),
        lambda: frame.union(frame).write.format("delta").mode("append").saveAsTable("t"),
        lambda: frame.writeTo("t").overwritePartitions(),
        lambda: spark.table("t"),
    )


@program("streams: joined with a table that changes")
def join_stream(lake: Lake) -> None:
    spark = lake.spark
    for number in (1, 2, 3):
        lake.frame((number,), schema="id int").write.format("delta").mode("append").save(
            lake.path("in")
        )
    lake.frame((1, "a"), (2, "b")).write.format("delta").saveAsTable("names")
    changes = {
        0: "INSERT INTO names VALUES (3, 'c')",
        1: "UPDATE names SET v = 'new' WHERE id = 3",
        2: "ALTER TABLE names ADD COLUMNS (w INT)",
        3: "INSERT INTO names VALUES (4, 'd', 1)",
    }

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.format("delta").mode("append").save(lake.path("out"))
        if number in changes:
            spark.sql(changes[number])

    def run(name: str) -> Callable[[], None]:
        stream = (
            spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(lake.path("in"))
        )
        joined = stream.join(spark.table("names"), "id").select("id", "v")
        return lake.run_stream(joined.writeStream.foreachBatch(keep), name)

    lake.attempt(run("a"), lambda: lake.load("out"))
    lake.frame((4,), schema="id int").write.format("delta").mode("append").save(lake.path("in"))
    lake.attempt(run("a"), lambda: lake.load("out"))
    stream = spark.readStream.format("delta").load(lake.path("in"))
    counted = spark.table("names").groupBy("v").count().withColumnRenamed("v", "k")
    joined = stream.join(counted, F.lit(True)).select("id", "k", "count")
    lake.attempt(
        lake.run_stream(joined.writeStream.option("path", lake.path("counted")), "b", "counted"),
        lambda: spark.table("counted"),
        lambda: spark.sql("CREATE OR REPLACE TABLE names (id STRING, v INT) USING delta"),
        run("c"),
    )


@program("streams: types that differ from the table's")
def write_other_types(lake: Lake) -> None:
    spark = lake.spark
    lake.frame(("1", "a"), ("2", "b"), schema="id string, v string").write.format("delta").save(
        lake.path("texts")
    )
    spark.sql("CREATE TABLE n (id INT, v STRING) USING delta")
    spark.sql("CREATE TABLE big (id BIGINT, v STRING) USING delta")
    spark.sql("CREATE TABLE flag (id BOOLEAN, v STRING) USING delta")
    texts = spark.readStream.format("delta").load(lake.path("texts"))
    for name, frame, target in (
        ("text", texts, "n"),
        ("bad text", texts.withColumn("id", F.lit("x")), "n"),
        ("small", texts.withColumn("id", F.lit(1).cast("short")), "big"),
        ("large", texts.withColumn("id", F.lit(2**40)), "n"),
        ("flag", texts.withColumn("id", F.lit(1)), "flag"),
        ("order", texts.select("v", F.lit(7).alias("id")), "n"),
        ("case", texts.select(F.lit(8).alias("ID"), "v"), "n"),
        ("date", texts.withColumn("id", F.current_date()), "n"),
    ):
        writer = frame.writeStream.format("delta")
        lake.attempt(
            lake.run_stream(writer, name, target),
            lambda target=target: spark.table(target),
            label=name,
        )


@program("DataFrame: managed tables whose directory has rows")
def name_leftovers(lake: Lake) -> None:
    spark, rows = lake.spark, lake.frame((1, "a"))
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    place = f"{warehouse}/{lake.database}.db/kept"
    rows.write.format("delta").save(place)
    lake.frame((2, "b")).write.format("delta").saveAsTable("other")
    columns = "(id INT, v STRING) USING delta"
    builder = lake.api.DeltaTable.createOrReplace(spark).tableName("kept").addColumn("q", "int")
    for act in (
        lambda: spark.sql(f"CREATE TABLE kept {columns}"),
        lambda: spark.sql(f"CREATE TABLE IF NOT EXISTS kept {columns}"),
        lambda: spark.sql(f"CREATE OR REPLACE TABLE kept {columns}"),
        lambda: spark.sql("CREATE TABLE kept USING delta AS SELECT 5 AS id"),
        lambda: spark.sql("CREATE OR REPLACE TABLE kept USING delta AS SELECT 5 AS id"),
        lambda: spark.sql("CREATE TABLE kept SHALLOW CLONE other"),
        lambda: spark.sql("CREATE OR REPLACE TABLE kept SHALLOW CLONE other"),
        lambda: builder.execute(),
        lambda: rows.write.format("delta").saveAsTable("kept"),
        lambda: rows.write.format("delta").mode("append").saveAsTable("kept"),
        lambda: rows.write.format("delta").mode("overwrite").saveAsTable("kept"),
    ):
        lake.attempt(act, lambda: spark.read.format("delta").load(place))
        spark.sql("DROP TABLE IF EXISTS kept")
        if not Path(f"{place}/_delta_log").is_dir():
            rows.write.format("delta").save(place)
