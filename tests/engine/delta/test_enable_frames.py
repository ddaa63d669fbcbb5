"""DataFrames of an enabled session: the engine reads and writes `format("delta")`."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    StreamingQueryException,
)
from pyspark.sql import functions as F  # noqa: N812

from engine.delta import DeltaTable, creation, enable
from engine.errors import InvariantViolationError, SchemaMismatchError
from tests.engine.delta.conftest import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
DAYS = [(1, "mon"), (2, "tue"), (3, "tue")]


@pytest.fixture
def days(lake):
    """Return three rows of two days."""
    return lake.createDataFrame(DAYS, "n int, day string").coalesce(1)


def read(lake, place, **options):
    return rows_of(lake.read.format("delta").options(**options).load(str(place)))


def test_a_path_is_made_added_to_and_overwritten(lake, days, tmp_path):
    place = str(tmp_path / "a table")
    days.write.format("delta").partitionBy("day").option("delta.appendOnly", "false").save(place)
    days.limit(1).write.format("lake").mode("append").save(place)
    assert read(lake, place) == sorted([*DAYS, (1, "mon")])
    with pytest.raises(AnalysisException, match="already exists"):
        days.write.format("delta").save(place)
    with pytest.raises(AnalysisException, match="is inside the Delta table"):
        days.write.format("delta").save(f"{place}/day=wed")
    days.write.format("delta").mode("ignore").save(place)
    one = lake.createDataFrame([(9, "tue")], "n int, day string")
    one.write.format("delta").mode("overwrite").option("replaceWhere", "day = 'tue'").save(place)
    assert read(lake, place) == [(1, "mon"), (1, "mon"), (9, "tue")]
    with pytest.raises(InvariantViolationError):
        one.write.format("delta").mode("overwrite").option("replaceWhere", "day = 'mon'").save(
            place
        )
    dynamic = one.write.format("delta").option("partitionOverwriteMode", "dynamic")
    dynamic.mode("overwrite").save(place)
    wider = one.withColumn("more", F.lit(1.5))
    with pytest.raises(SchemaMismatchError):
        wider.write.format("delta").mode("append").save(place)
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(place)
    assert read(lake, place) == [
        (1, "mon", None),
        (1, "mon", None),
        (9, "tue", 1.5),
        (9, "tue", None),
    ]
    assert read(lake, place, versionAsOf=0) == sorted(DAYS)
    with pytest.raises(AnalysisException, match="partition"):
        one.write.format("delta").mode("append").partitionBy("n").save(place)
    other = one.selectExpr("n", "n + 1 AS m").write.format("delta").mode("overwrite")
    other.option("overwriteSchema", "true").partitionBy("n").save(place)
    assert DeltaTable.forPath(lake, place).detail().first().partitionColumns == ["n"]
    assert read(lake, place) == [(9, 10)]


TIMES = [
    (1, "a b/%", datetime(2020, 1, 1, 12, 30, 0, 5, UTC)),
    (2, "a b/%", datetime(2020, 1, 1, 12, 30, 0, 5, UTC)),
    (3, "", datetime(1900, 1, 1, tzinfo=UTC)),
    (4, None, None),
]


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_partitions_are_pruned_and_deleted_rows_left_out(lake, tmp_path, mapping):
    place = str(tmp_path / "pruned")
    writer = lake.createDataFrame(TIMES, "n int, name string, at timestamp").coalesce(1).write
    writer = writer.option("delta.enableDeletionVectors", "true").partitionBy("name", "at")
    writer.format("delta").option("delta.columnMapping.mode", mapping).save(place)
    frame = lake.read.format("delta").load(place)
    kept = [(n, name or None) for n, name, _ in TIMES]
    assert rows_of(frame.select("n", "name")) == kept
    assert rows_of(frame.filter("at = timestamp '2020-01-01 12:30:00.000005Z'").select("n")) == [
        (1,),
        (2,),
    ]
    chosen = frame.filter("name = 'a b/%' and n > 1")
    plan = chosen._jdf.queryExecution().toString()
    assert "PartitionFilters: [isnotnull(" in plan
    assert "GreaterThan(" in plan
    assert "Join" not in plan
    assert rows_of(chosen.select("n")) == [(2,)]
    DeltaTable.forPath(lake, place).delete("n = 2")
    assert DeltaTable.forPath(lake, place).detail().first().numFiles == 3
    masked = lake.read.format("delta").load(place)
    assert rows_of(masked.select("n", "name")) == [row for row in kept if row[0] != 2]
    pruned = masked.filter("name = 'a b/%'")
    assert pruned._jdf.queryExecution().toString().count("PartitionFilters: [isnotnull(") > 0
    assert rows_of(pruned.select("n")) == [(1,)]
    assert rows_of(masked.filter("name is null").select("n")) == [(3,), (4,)]


def test_names_are_saved_inserted_and_written_to(lake, days):
    days.write.format("delta").saveAsTable("days")
    days.write.mode("append").saveAsTable("days")
    days.select(F.col("n").alias("other"), "day").write.insertInto("days")
    assert lake.table("days").count() == 9
    assert lake.read.table("shop.days").filter("days.n = 1").count() == 3
    days.filter("n = 2").write.insertInto("days", overwrite=True)
    assert rows_of(lake.table("days")) == [(2, "tue")]
    days.writeTo("days").append()
    days.filter("n = 1").writeTo("days").overwrite(F.col("n") == 1)
    days.filter("n = 3").writeTo("days").overwrite(F.reverse("day") == "eut")
    assert rows_of(lake.table("days")) == [(1, "mon"), (3, "tue")]
    days.writeTo("other").using("delta").partitionedBy("day").tableProperty("team", "a").create()
    days.filter("n = 2").writeTo("other").overwritePartitions()
    assert rows_of(lake.table("other")) == [(1, "mon"), (2, "tue")]
    days.select("n").writeTo("other").using("delta").createOrReplace()
    assert rows_of(lake.table("other")) == [(1,), (2,), (3,)]
    days.write.format("parquet").saveAsTable("files")
    assert lake.table("files").count() == 3


def test_the_pipeline_of_the_documentation_runs(lake, tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[3] / "docs" / "pyspark.md").read_text("utf-8")
    code = next(part for part in text.split("```python\n") if part.startswith("import sys"))
    makes = 'enable(SparkSession.builder.appName("orders").getOrCreate())'
    assert makes in code
    monkeypatch.setattr(sys, "argv", ["pipeline.py", str(tmp_path)])
    code = code.partition("```")[0].replace(makes, "lake")
    exec(compile(code, "docs/pyspark.md", "exec"), {"lake": lake})  # noqa: S102 - our own text
    assert capsys.readouterr().out == "2 [(2, 'paid')]\n"
    lake.sql("DROP TABLE orders")


def test_changes_are_read_by_version(lake, days, tmp_path):
    place = str(tmp_path / "changes")
    days.write.format("delta").option("delta.enableChangeDataFeed", "true").save(place)
    DeltaTable.forPath(lake, place).delete("n = 1")
    feed = lake.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    assert rows_of(feed.load(place).drop("_commit_timestamp")) == [(1, "mon", "delete", 1)]
    text = "SELECT n, _change_type FROM table_changes_by_path(:path, 0) ORDER BY _commit_version, n"
    assert [tuple(row) for row in lake.sql(text, {"path": place}).collect()] == [
        *((n, "insert") for n, _ in DAYS),
        (1, "delete"),
    ]


def test_a_statement_keeps_the_callers_cache_and_refuses_buckets(lake, days):
    days.write.format("delta").saveAsTable("cached")
    frame = lake.table("cached").cache()
    assert frame.count() == lake.sql("SELECT count(*) FROM cached").first()[0] == len(DAYS)
    assert frame.storageLevel.useMemory
    assert "InMemoryTableScan" in frame.filter("n = 1")._jdf.queryExecution().toString()
    frame.unpersist()
    with pytest.raises(AnalysisException, match="do not support buckets"):
        days.write.format("delta").bucketBy(2, "n").saveAsTable("buckets")


def test_a_write_of_an_application_is_done_once(lake, days, tmp_path):
    place = str(tmp_path / "once")
    for version in (1, 1, 2, 2):
        writer = days.write.format("delta").option("txnAppId", "job").option("txnVersion", version)
        writer = writer.option("userMetadata", f"run {version}").mode("append")
        writer.save(place)  # the first makes the table
        writer.saveAsTable("once")
    assert lake.read.format("delta").load(place).count() == 6
    assert lake.table("once").count() == 6
    history = DeltaTable.forPath(lake, place).history()
    assert [row.userMetadata for row in history.collect()] == ["run 2", "run 1"]


def test_a_session_s_settings_name_the_write_of_an_application(lake, days):
    session, settings = lake.newSession(), "spark.databricks.delta.write"
    session.sql("USE shop")
    frame = session.createDataFrame(days.collect(), days.schema)
    session.conf.set(f"{settings}.txnAppId", "job")
    for version in (1, 2):
        session.conf.set(f"{settings}.txnVersion", str(version))
        for _ in range(2):
            frame.write.format("delta").mode("append").saveAsTable("settled")
    assert rows_of(session.table("settled")) == sorted(DAYS * 2)
    session.conf.set(f"{settings}.txnVersion.autoReset.enabled", "true")
    session.conf.set(f"{settings}.txnVersion", "3")
    session.sql("DELETE FROM settled WHERE n = 1")
    with pytest.raises(IllegalArgumentException, match="Give both"):
        session.sql("DELETE FROM settled")
    assert rows_of(session.table("settled")) == sorted(DAYS[1:] * 2)


def test_a_column_whose_collation_would_be_lost_is_refused(lake, days, tmp_path):
    collated = days.select("n", F.array(F.collate("day", "UTF8_LCASE")).alias("days"))
    with pytest.raises(AnalysisException, match="days has a collation"):
        collated.write.format("delta").save(str(tmp_path / "collated"))
    with pytest.raises(AnalysisException, match="day has a collation"):
        lake.sql("CREATE TABLE collated (n INT, day STRING COLLATE UTF8_LCASE) USING delta")
    assert not lake.catalog.tableExists("collated")
    days.write.format("delta").saveAsTable("plain")
    assert lake.table("plain").filter("day = 'MON' COLLATE UTF8_LCASE").count() == 1


def test_a_name_that_another_writer_filled_is_left_to_it(lake, days, monkeypatch):
    make_at = creation._create_at

    def late(*arguments, **more):
        monkeypatch.setattr(creation, "_create_at", make_at)
        with ThreadPoolExecutor() as other:
            statement = "CREATE OR REPLACE TABLE taken USING delta AS SELECT 7 AS n"
            other.submit(lake.sql, statement).result()
        return make_at(*arguments, **more)

    monkeypatch.setattr(creation, "_create_at", late)
    with pytest.raises(AnalysisException, match="already exists"):
        days.write.format("delta").saveAsTable("taken")
    assert rows_of(lake.table("taken")) == [(7,)]


def test_a_stream_reads_a_name_and_makes_the_table_that_it_writes(lake, days, tmp_path):
    days.write.format("delta").saveAsTable("events")
    copy = str(tmp_path / "copy")
    stream = lake.readStream.table("events").writeStream.format("delta").trigger(availableNow=True)
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.start(copy).awaitTermination()
    assert read(lake, copy) == sorted(DAYS)
    again = lake.readStream.table("events").writeStream.format("delta").trigger(availableNow=True)
    again = again.options(checkpointLocation=str(tmp_path / "again"), path=f"{copy} 2")
    again.start().awaitTermination()
    assert read(lake, f"{copy} 2") == sorted(DAYS)


def test_a_stream_casts_to_the_types_of_the_table(lake, tmp_path):
    lake.sql("CREATE TABLE typed (id INT, at TIMESTAMP, s STRUCT<n: BIGINT>) USING delta")
    texts = [("1", "2026-01-31 12:00:00", (2,)), ("2", None, None)]
    texts = lake.createDataFrame(texts, "ID string, at string, s struct<n: int>")
    texts.write.format("delta").saveAsTable("texts")
    zone = lake.conf.get("spark.sql.session.timeZone")

    def stream(frame, name):
        writer = frame.writeStream.format("delta").queryName(name).outputMode("append")
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        writer.trigger(availableNow=True).toTable("typed").awaitTermination()

    stored = lake.readStream.table("texts")
    try:
        lake.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        stream(stored, "fits")
        moment = datetime(2026, 1, 31, 3, tzinfo=UTC)
        found = lake.sql("SELECT id, unix_seconds(at) AS at, s.n FROM typed").collect()
        assert sorted(map(tuple, found)) == [(1, moment.timestamp(), 2), (2, None, None)]
        for ansi in ("true", "false"):
            lake.conf.set("spark.sql.ansi.enabled", ansi)
            for number, (value, fault) in enumerate(
                [(F.lit("x"), "CAST_INVALID_INPUT"), (F.lit(2**40), "CAST_OVERFLOW")]
            ):
                fault = fault if ansi == "true" else '"place":"id"'
                with pytest.raises(StreamingQueryException, match=fault):
                    stream(stored.withColumn("id", value), f"{ansi} {number}")
    finally:
        lake.conf.set("spark.sql.session.timeZone", zone)
        lake.conf.set("spark.sql.ansi.enabled", "true")
    for frame, fault in (
        (stored.withColumn("id", F.current_date()), "DELTA_FAILED_TO_MERGE_FIELDS"),
        (stored.withColumn("more", F.lit(1)), "the table does not"),
    ):
        with pytest.raises(AnalysisException, match=fault):
            stream(frame, "refused")
    assert lake.table("typed").count() == 2


def test_spark_s_own_builder_merges_into_a_delta_table(lake, days, tmp_path):
    days.write.format("delta").saveAsTable("merged")
    place = DeltaTable.forName(lake, "merged").detail().first().location
    changes = lake.createDataFrame([(1, "wed"), (9, "fri")], "n int, day string").alias("s")
    merging = changes.mergeInto("merged", F.col("merged.n") == F.col("s.n"))
    merging = merging.whenMatched(F.col("s.day") == "wed").update({"day": F.col("s.day")})
    merging = merging.whenNotMatched().insertAll()
    merging.whenNotMatchedBySource(F.col("merged.n") == 3).delete().merge()
    assert rows_of(lake.table("merged")) == [(1, "wed"), (2, "tue"), (9, "fri")]
    on_path = changes.toDF("k", "d").mergeInto(f"delta.`{place}`", F.expr("n = k"))
    on_path.whenMatched().delete().whenNotMatched().insert({"n": F.col("k")}).merge()
    assert rows_of(lake.table("merged")) == [(2, "tue")]
    wider = changes.withColumn("more", F.lit(True)).mergeInto("merged", F.lit(False))
    wider.withSchemaEvolution().whenNotMatched().insertAll().merge()
    assert lake.table("merged").columns == ["n", "day", "more"]
    with pytest.raises(AnalysisException, match="cannot take values from a source row"):
        merging.whenNotMatchedBySource().updateAll()


def test_a_save_that_makes_a_table_is_a_write_of_its_mode(lake, days, tmp_path):
    for mode in ("ErrorIfExists", "Append"):
        place = str(tmp_path / mode)
        days.write.format("delta").mode(mode).save(place)
        first = DeltaTable.forPath(lake, place).history().first()
        assert (first.operation, first.operationParameters["mode"]) == ("WRITE", mode)


def test_the_history_has_the_condition_of_optimize_as_spark_prints_it(lake, days, tmp_path):
    place = str(tmp_path / "t")
    for _ in range(2):
        days.write.format("delta").mode("append").partitionBy("day").save(place)
    table = DeltaTable.forPath(lake, place)
    table.optimize().where("day = 'mon'").executeCompaction()
    for history in (table.history(), lake.sql(f"DESCRIBE HISTORY delta.`{place}`")):
        assert history.first().operationParameters["predicate"] == """["('day = mon)"]"""


def test_a_stream_of_changes_continues_where_it_was(lake, days, tmp_path):
    days.write.format("delta").option("delta.enableChangeDataFeed", "true").saveAsTable("changing")
    copy = str(tmp_path / "changes")

    def stream_rows():
        reader = lake.readStream.format("delta").option("readChangeFeed", "true")
        query = reader.table("changing").writeStream.format("delta").trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.start(copy).awaitTermination()
        rows = lake.read.format("delta").load(copy)
        return rows_of(rows.select("_commit_version", "_change_type", "n", "day"))

    first = [(0, "insert", n, day) for n, day in DAYS]
    assert stream_rows() == sorted(first)
    lake.sql("UPDATE changing SET day = 'sun' WHERE n = 1")
    lake.sql("DELETE FROM changing WHERE n = 2")
    changes = [
        (1, "update_preimage", 1, "mon"),
        (1, "update_postimage", 1, "sun"),
        (2, "delete", 2, "tue"),
    ]
    assert stream_rows() == sorted([*first, *changes])


def test_a_file_has_no_more_records_than_the_writer_or_the_session_says(lake, tmp_path):
    place, limit = str(tmp_path / "t"), "spark.sql.files.maxRecordsPerFile"
    rows = lake.range(0, 10, 1, 1)
    rows.write.format("delta").option("maxRecordsPerFile", 4).save(place)
    table = DeltaTable.forPath(lake, place)
    assert table.detail().first().numFiles == 3
    lake.conf.set(limit, "5")
    try:
        rows.write.format("delta").mode("overwrite").save(place)
        assert table.detail().first().numFiles == 2
        table.optimize().executeCompaction()
        assert table.detail().first().numFiles == 1
    finally:
        lake.conf.unset(limit)
    with pytest.raises(AnalysisException, match="maxRecordsPerFile is 'few'"):
        rows.write.format("delta").option("maxRecordsPerFile", "few").mode("append").save(place)
    assert len(read(lake, place)) == 10


def test_a_new_table_at_a_place_of_its_own_gets_a_name(lake, days, tmp_path):
    places = [str(tmp_path / name) for name in ("saved", "selected", "cloned", "none")]
    days.write.format("delta").option("path", places[0]).saveAsTable("placed")
    lake.sql(f"CREATE TABLE chosen USING delta LOCATION '{places[1]}' AS TABLE placed")
    lake.sql(f"CREATE TABLE cloned SHALLOW CLONE placed LOCATION '{places[2]}'")
    for name, place in zip(("placed", "chosen", "cloned"), places, strict=False):
        assert rows_of(lake.table(name)) == read(lake, place) == DAYS
        assert [column.name for column in lake.catalog.listColumns(name)] == ["n", "day"]
    lake.sql("DROP TABLE chosen")
    assert read(lake, places[1]) == DAYS
    with pytest.raises(AnalysisException, match="DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_SCHEMA"):
        lake.sql(f"CREATE TABLE nowhere USING delta LOCATION '{places[3]}'")
    assert not lake.catalog.tableExists("nowhere")


def test_a_frame_without_columns_makes_no_table(lake, days, tmp_path):
    place = tmp_path / "t"
    with pytest.raises(AnalysisException, match="DELTA_EMPTY_DATA"):
        days.select().write.format("delta").save(str(place))
    assert not place.exists()


def test_workers_of_a_local_session_run_the_driver_s_python(lake, monkeypatch):
    monkeypatch.setattr(lake.sparkContext, "pythonExec", "python3")
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python3")
    enable(lake)
    assert lake.sparkContext.pythonExec == "python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    enable(lake)
    assert lake.sparkContext.pythonExec == sys.executable


def test_the_directory_of_a_partition_is_read_as_its_rows(lake, tmp_path):
    place = tmp_path / "t"
    frame = lake.createDataFrame(
        [(1, "a b", 1), (2, "c", 1), (3, "c", 2)], "n int, p string, q int"
    )
    frame.write.format("delta").partitionBy("p", "q").save(str(place))
    assert read(lake, f"{place}/p=c") == [(2, "c", 1), (3, "c", 2)]
    assert read(lake, f"{place}/p=c/q=2/") == [(3, "c", 2)]
    assert read(lake, f"{place}/p=a%20b") == [(1, "a b", 1)]
    assert rows_of(lake.sql(f"SELECT n FROM delta.`{place}/p=c` WHERE q = 1")) == [(2,)]  # noqa: S608
    lake.createDataFrame([(4, "c", 1)], frame.schema).write.format("delta").mode("append").save(
        str(place)
    )
    assert len(read(lake, f"{place}/p=c")) == 3
    assert DeltaTable.isDeltaTable(lake, f"{place}/p=c")
    assert not DeltaTable.isDeltaTable(lake, str(tmp_path))
    reader = lake.read.format("delta").option("versionAsOf", 0)
    assert reader.load(f"{place}/p=c").count() == 2
    for path, code in (
        ("p=zz", "DELTA_PATH_DOES_NOT_EXIST"),
        ("q=text", "DELTA_PATH_DOES_NOT_EXIST"),
        ("n=1", "DELTA_NON_PARTITION_COLUMN_SPECIFIED"),
        ("below", "DELTA_INVALID_PARTITION_PATH"),
    ):
        with pytest.raises(AnalysisException, match=code):
            read(lake, f"{place}/{path}")


def test_a_write_that_only_rearranges_rows_says_so(lake, tmp_path):
    place = str(tmp_path / "t")
    rows = lake.range(0, 6, 1, 3).selectExpr("id", "id % 2 AS p")
    writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.partitionBy("p").save(place)
    still = lake.read.format("delta").load(place)
    before = rows_of(still)
    for options in ({}, {"replaceWhere": "p = 1"}):
        some = still.where(options.get("replaceWhere", "true")).repartition(1)
        again = some.write.format("delta").mode("overwrite").options(**options)
        again.option("dataChange", "false").save(place)
        log = sorted((tmp_path / "t" / "_delta_log").glob("*.json"))[-1].read_text()
        assert '"dataChange":false' in log
        assert '"dataChange":true' not in log
        assert '"cdc"' not in log
    assert rows_of(lake.read.format("delta").load(place)) == before
    assert DeltaTable.forPath(lake, place).detail().first().numFiles == 2
    with pytest.raises(IllegalArgumentException, match="DELTA_ILLEGAL_OPTION"):
        rows.write.format("delta").option("dataChange", "no").mode("append").save(place)


def test_a_program_decides_how_many_files_its_rows_have(lake, tmp_path):
    rows = lake.range(20).selectExpr("id AS n", "id % 2 AS p")
    for number, (frame, partitions, files) in enumerate(
        (
            (rows.repartition(10), [], 10),
            (rows.repartition(10).select("n").where("n >= 0"), [], 10),
            (rows.repartitionByRange(3, "n"), [], 3),
            (rows.repartition(3).coalesce(1), [], 1),
            (rows.repartition(3), ["p"], 6),
            (rows, [], 1),
            (rows, ["p"], 2),
        )
    ):
        place = str(tmp_path / str(number))
        frame.write.format("delta").partitionBy(*partitions).save(place)
        assert DeltaTable.forPath(lake, place).detail().first().numFiles == files, number
    lake.sql("CREATE OR REPLACE TABLE hinted (id BIGINT) USING delta")
    lake.sql("INSERT INTO hinted SELECT /*+ REPARTITION(6) */ id FROM range(30)")
    assert DeltaTable.forName(lake, "hinted").detail().first().numFiles == 6


def test_the_catalog_makes_tables_and_lists_their_columns(lake, days, tmp_path):
    place = str(tmp_path / "t")
    days.write.format("delta").partitionBy("day").save(place)
    catalog = lake.catalog
    assert rows_of(catalog.createTable("named", path=place, source="delta")) == sorted(DAYS)
    with pytest.warns(FutureWarning, match="createExternalTable"):
        other = catalog.createExternalTable("external", path=place, source="delta")
    assert rows_of(other) == sorted(DAYS)
    made = catalog.createTable("made", source="delta", schema=days.schema, description="of days")
    assert rows_of(made) == []
    lake.sql("INSERT INTO made SELECT * FROM named")
    assert rows_of(lake.table("made")) == sorted(DAYS)
    assert catalog.getTable("made").description == "of days"
    lake.sql("CREATE TABLE said (n INT COMMENT 'a number') USING delta COMMENT 'as said'")
    lake.sql("ALTER TABLE said ADD COLUMNS (m INT)")
    assert catalog.getTable("said").description == "as said"
    columns = [(c.name, c.description, c.isPartition) for c in catalog.listColumns("named")]
    assert columns == [("n", None, False), ("day", None, True)]
    said = [(column.name, column.description) for column in catalog.listColumns("shop.said")]
    assert said == [("n", "a number"), ("m", None)]
    with pytest.raises(AnalysisException, match="DELTA_CREATE_TABLE_SCHEME_MISMATCH"):
        catalog.createTable("wrong", path=place, source="delta", schema=lake.range(1).schema)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        catalog.listColumns("nowhere")
