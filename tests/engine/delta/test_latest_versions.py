"""DataFrames and views over a table read its latest version in every query."""
# ruff: noqa: S608 - the only names in these statements are the paths of this module

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from engine.delta import DeltaTable
from engine.spark.scan import live_tables
from engine.spark.scan.live_tables import SchemaChangedSinceAnalysisError
from engine.table import DeltaTable as EngineTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture
def place(lake, tmp_path):
    place = str(tmp_path / "table")
    append(lake, place, 1)
    return place


def append(spark, place, *numbers):
    rows = spark.createDataFrame([(number,) for number in numbers], "n int")
    rows.coalesce(1).write.format("delta").mode("append").save(place)


def load(spark, place):
    return spark.read.format("delta").load(place)


def numbers(frame):
    return sorted(row.n for row in frame.collect())


def test_every_way_to_make_a_frame_reads_later_writes(lake, place):
    lake.sql(f"CREATE OR REPLACE TEMP VIEW by_sql AS SELECT n FROM delta.`{place}`")
    load(lake, place).createOrReplaceTempView("by_frame")
    load(lake, place).createOrReplaceGlobalTempView("for_all")
    frames = {
        "load": load(lake, place),
        "sql": lake.sql(f"SELECT * FROM delta.`{place}`"),
        "table": lake.table(f"delta.`{place}`"),
        "toDF": DeltaTable.forPath(lake, place).toDF(),
        "filter": load(lake, place).filter("n > 0"),
        "subquery": lake.sql(f"SELECT n FROM range(9) JOIN delta.`{place}` ON id = n"),
        "view": lake.table("by_sql"),
        "view of a frame": lake.sql("SELECT * FROM by_frame"),
        "global view": lake.table("global_temp.for_all"),
    }
    assert {name: numbers(frame) for name, frame in frames.items()} == {
        name: [1] for name in frames
    }
    append(lake, place, 2, 3)
    lake.sql(f"DELETE FROM delta.`{place}` WHERE n = 2")  # by a deletion vector
    append(lake, place, 4)
    for name, frame in frames.items():
        assert numbers(frame) == [1, 3, 4], name
        assert frame.count() == frame.rdd.count() == len(frame.toPandas()) == 3, name
        assert [row.n for row in frame.orderBy("n").toLocalIterator()] == [1, 3, 4], name
        assert frame.agg(F.max("n")).first()[0] == 4, name
    lake.catalog.dropGlobalTempView("for_all")


def test_joins_and_unions_of_frames_of_several_times_read_one_version(lake, place):
    first = load(lake, place)
    append(lake, place, 2)
    second = load(lake, place)
    append(lake, place, 3)
    assert numbers(first.union(second)) == [1, 1, 2, 2, 3, 3]
    assert first.alias("a").join(second.alias("b"), "n").count() == 3
    assert first.alias("a").join(first.alias("b"), "n").count() == 3


def test_no_query_sees_two_versions_of_a_table(lake, place, monkeypatch):
    """A commit is made between the two scans of each join."""
    table, original = load(lake, place), live_tables.LiveTable.latest
    seen = []

    def latest(live, spark):
        snapshot = original(live, spark)
        seen.append(snapshot.version)
        if len(seen) == 1:
            append(lake, place, 2)
        return snapshot

    monkeypatch.setattr(live_tables.LiveTable, "latest", latest)
    both = table.alias("a").join(table.select("n").distinct().alias("b"), "n", "full")
    assert both.filter("a.n IS NULL OR b.n IS NULL").count() == 0
    assert len(seen) > 1
    assert set(seen) == {seen[0]}


def test_frames_that_spark_caches_stay_cached(lake, place):
    frame = load(lake, place).cache()
    try:
        assert frame.count() == 1
        append(lake, place, 2)
        assert frame.count() == 1
        assert load(lake, place).count() == 2
    finally:
        frame.unpersist()
    assert frame.count() == 2


def test_a_requested_version_stays(lake, place):
    by_option = lake.read.format("delta").option("versionAsOf", 0).load(place)
    by_sql = lake.sql(f"SELECT n FROM delta.`{place}` VERSION AS OF 0")
    append(lake, place, 2)
    assert numbers(by_option) == numbers(by_sql) == [1]


def test_a_merge_from_a_view_in_a_loop_sees_each_turn(lake, place, tmp_path):
    target = str(tmp_path / "target")
    append(lake, target, 0)
    load(lake, place).createOrReplaceTempView("incoming")
    for number in (2, 3):
        append(lake, place, number)
        lake.sql(
            f"MERGE INTO delta.`{target}` t USING incoming s ON t.n = s.n"
            " WHEN NOT MATCHED THEN INSERT *"
        )
    assert numbers(load(lake, target)) == [0, 1, 2, 3]


def test_a_stream_sees_later_rows_of_a_static_table_that_it_joins(lake, place, tmp_path):
    facts, batches = str(tmp_path / "facts"), []
    append(lake, facts, 1)
    names = load(lake, place).withColumn("is_known", F.lit(True))
    query = (
        lake.readStream.format("delta")
        .load(facts)
        .join(names, "n", "left")
        .writeStream.foreachBatch(lambda rows, _: batches.extend(map(tuple, rows.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        append(lake, place, 2)
        append(lake, facts, 2)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(batches) == [(1, True), (2, True)]


def test_a_statement_reads_its_own_target_at_its_read_version(lake, place):
    frame = load(lake, place)
    frame.createOrReplaceTempView("own")
    table = DeltaTable.forPath(lake, place)
    for expected in ([1, 2], [1, 2, 3], [1, 2, 3, 4]):
        merging = table.alias("t").merge(
            frame.selectExpr("max(n) + 1 AS n").alias("s"), "t.n = s.n"
        )
        merging.whenNotMatchedInsertAll().execute()
        assert numbers(frame) == expected
    lake.sql(f"UPDATE delta.`{place}` SET n = 50 WHERE n = (SELECT max(n) FROM own)")
    lake.sql(f"DELETE FROM delta.`{place}` WHERE n IN (SELECT n FROM own WHERE n < 2)")
    assert numbers(frame) == [2, 3, 50]
    lake.sql(f"INSERT INTO delta.`{place}` SELECT n + 100 FROM own")
    frame.filter("n > 10").write.format("delta").mode("overwrite").save(place)
    assert numbers(frame) == [50, 102, 103, 150]


def test_a_cached_frame_of_the_target_is_no_source(lake, place):
    frame = load(lake, place).cache()
    try:
        assert frame.count() == 1
        append(lake, place, 2)
        with pytest.raises(AnalysisException, match="Unpersist a cached DataFrame"):
            frame.write.format("delta").mode("overwrite").save(place)
    finally:
        frame.unpersist()
    assert numbers(load(lake, place)) == [1, 2]


def test_columns_that_are_added_do_not_matter_and_other_changes_are_errors(lake, place):
    frame, mapped = load(lake, place), load(lake, place)
    lake.sql(f"ALTER TABLE delta.`{place}` ADD COLUMN more STRING")
    append(lake, place, 2)
    assert numbers(frame) == [1, 2]
    later = load(lake, place)
    lake.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.sql(f"ALTER TABLE delta.`{place}` RENAME COLUMN more TO most")
    assert numbers(mapped) == [1, 2]
    for act in (later.count, later.collect):
        with pytest.raises(SchemaChangedSinceAnalysisError, match="has no column more") as raised:
            act()
        assert isinstance(raised.value, AnalysisException)
        assert raised.value.getCondition() == "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    text = lake.createDataFrame([("a",)], "n string").write.format("delta").mode("overwrite")
    text.option("overwriteSchema", "true").save(place)
    with pytest.raises(SchemaChangedSinceAnalysisError, match="column n was replaced"):
        mapped.count()


def test_a_table_that_gets_deletion_vectors_later_is_an_error_and_not_an_old_row(lake, tmp_path):
    place = str(tmp_path / "plain")
    lake.sql(
        f"CREATE TABLE delta.`{place}` (n INT) USING delta"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
    )
    append(lake, place, 1, 2, 3)
    frame = load(lake, place)
    lake.sql(
        f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)"
    )
    assert numbers(frame) == [1, 2, 3]
    lake.sql(f"DELETE FROM delta.`{place}` WHERE n = 1")
    has_vectors = any(add.deletion_vector for add in EngineTable.open(place).snapshot().add_files())
    assert has_vectors
    with pytest.raises(SchemaChangedSinceAnalysisError, match="deletion vectors"):
        frame.count()


def test_frames_of_one_table_in_many_threads_read_one_version_each(lake, place):
    """Every commit adds two rows, so no count is even."""
    frame = load(lake, place)
    pairs = frame.alias("a").join(frame.alias("b"), "n")
    with ThreadPoolExecutor(3) as pool:
        counts = [pool.submit(pairs.count) for _ in range(4)]
        for number in (2, 4, 6):
            append(lake, place, number, number + 1)
        assert all(count.result() % 2 for count in counts)
    assert pairs.count() == 7
