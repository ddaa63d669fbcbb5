"""A DataFrame from the table that a write changes: no update between the two is lost."""

import shutil

import pytest
from pyspark.errors import AnalysisException

from engine.delta import DeltaTable
from engine.delta.exceptions import DeltaConcurrentModificationException
from engine.spark.data_source import register
from tests.engine.delta.conftest import Meanwhile, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def _upsert(table, frame):
    merging = table.alias("t").merge(frame.alias("s"), "t.key = s.key")
    return merging.whenMatchedUpdate(set={"value": "s.value + 1"}).execute()


def _place(table):
    return table.detail().first().location


def test_a_source_reads_the_table_at_the_version_that_its_write_reads(spark, make):
    table = make()
    frame = table.toDF().where("key = 'a'")
    assert frame.count() == 1
    frame.createOrReplaceTempView("own_rows")
    table.update("key = 'a'", {"value": "100"})
    for source in (frame, spark.sql("SELECT key, max(value) AS value FROM own_rows GROUP BY key")):
        _upsert(table, source)
    assert rows_of(table.toDF())[0] == ("a", 102)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_commit_since_the_version_that_a_write_reads_is_checked_against_its_source(make, retries):
    table = make()
    other = table.toDF().where("key = 'b'").selectExpr("'a' AS key", "value")
    update = Meanwhile(lambda: table.update("key = 'b'", {"value": "100"}))
    late = table.retries(retries).observed(update)
    if not retries:
        with pytest.raises(DeltaConcurrentModificationException):
            _upsert(late, other)
        assert rows_of(table.toDF())[0] == ("a", 1)
    else:
        _upsert(late, other)
        assert rows_of(table.toDF())[0] == ("a", 101)


def test_a_cached_frame_does_not_say_its_version(make):
    table = make()
    frame = table.toDF().where("key = 'a'").cache()
    assert frame.count() == 1
    table.update("key = 'a'", {"value": "100"})
    with pytest.raises(AnalysisException, match="does not report at which version"):
        _upsert(table, frame)
    frame.unpersist()
    _upsert(table, frame)
    assert rows_of(table.toDF())[0] == ("a", 101)


def test_a_read_of_the_data_source_does_not_say_its_version(spark, make):
    table = make()
    register(spark)
    reader = spark.read.format("lake")
    latest = reader.load(_place(table)).where("key = 'a'")
    table.update("key = 'a'", {"value": "100"})
    for frame in (latest, reader.load(_place(table)).cache()):
        with pytest.raises(AnalysisException, match="does not report at which version"):
            _upsert(table, frame)
    assert rows_of(table.toDF())[0] == ("a", 100)


def test_rows_of_a_requested_version_can_be_restored(spark, make):
    table = make()
    register(spark)
    table.update("key = 'a'", {"value": "100"})
    earlier = spark.read.format("lake").option("versionAsOf", 1).load(_place(table))
    _upsert(table, earlier.where("key = 'a'"))
    assert rows_of(table.toDF())[0] == ("a", 2)


def test_frames_of_several_times_are_one_source(spark, make):
    table = make()
    before = table.toDF()
    table.merge(
        spark.createDataFrame([("e", 5)], "key string, value bigint"), "false"
    ).whenNotMatchedInsertAll().execute()
    both = table.toDF().join(before.select("key").distinct(), "key", "inner")
    merging = table.alias("t").merge(both.alias("s"), "t.key = s.key")
    merging.whenMatchedUpdate(set={"value": "s.value * 10"}).execute()
    assert [row[1] for row in rows_of(table.toDF())] == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("write", ["merge", "overwrite"])
def test_rows_that_were_appended_before_the_write_began_are_read(lake, tmp_path, write):
    place = str(tmp_path / "table")
    rows = lake.createDataFrame([(1,), (2,)], "n int")
    rows.write.format("delta").save(place)
    table = DeltaTable.forPath(lake, place)
    seen = table.toDF()
    rows.selectExpr("n + 10 AS n").write.format("delta").mode("append").save(place)
    merging = table.alias("t").merge(seen.alias("s"), "t.n = s.n").whenNotMatchedBySourceDelete()
    over = seen.write.format("delta").mode("overwrite").option("path", place)
    {"merge": merging.execute, "overwrite": over.save}[write]()
    assert sorted(rows_of(table.toDF())) == [(1,), (2,), (11,), (12,)]


def test_the_files_of_the_table_are_no_source_for_it(spark, make):
    table = make()
    files = spark.read.parquet(_place(table))
    table.update("key = 'a'", {"value": "100"})
    with pytest.raises(AnalysisException, match=r"DeltaTable\.toDF\(\)"):
        _upsert(table, files)
    assert rows_of(table.toDF())[0] == ("a", 100)


def test_rows_of_an_rdd_of_the_table_are_no_source_for_it(spark, make):
    table = make()
    rows = table.toDF().where("key = 'a'").rdd.map(lambda row: (row.key, row.value + 1))
    table.update("key = 'a'", {"value": "100"})
    with pytest.raises(AnalysisException, match="does not report at which version"):
        _upsert(table, spark.createDataFrame(rows, "key string, value bigint"))
    assert rows_of(table.toDF())[0] == ("a", 100)
    other = spark.createDataFrame(make().toDF().rdd.filter(lambda row: row.key == "a"))
    _upsert(table, other)
    assert rows_of(table.toDF())[0] == ("a", 2)


def test_a_file_of_the_table_among_many_others_is_seen(spark, make, tmp_path):
    table = make()
    first = tmp_path / "0"
    spark.range(1).selectExpr("'z' AS key", "id AS value").coalesce(1).write.parquet(str(first))
    others = [shutil.copytree(first, tmp_path / str(number)) for number in range(1, 102)]
    frame = spark.read.parquet(*map(str, others), _place(table))
    table.update("key = 'a'", {"value": "100"})
    with pytest.raises(AnalysisException, match=r"DeltaTable\.toDF\(\)"):
        _upsert(table, frame)
    assert rows_of(table.toDF())[0] == ("a", 100)
