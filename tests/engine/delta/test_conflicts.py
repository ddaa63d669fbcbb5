"""Two concurrent programs: sources with a tree are compared by rows, opaque ones by files."""

# ruff: noqa: S608 - statements with names of this test
from functools import partial

import pytest
from pyspark.sql import functions as F  # noqa: N812

from engine.delta import DeltaTable, enable
from engine.delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
)
from engine.delta.handle import Handle
from tests.engine.delta.conftest import Meanwhile, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def _source(spark, rows):
    return spark.createDataFrame(rows, "key string, value bigint").alias("s")


def _upsert(table, source):
    merging = table.alias("t").merge(source, F.col("t.key") == F.col("s.key"))
    return merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def test_an_update_by_columns_is_decided_at_row_level(spark, make):
    table = make()
    first = table.observed(Meanwhile(lambda: table.delete(F.col("key") == "b")))
    result = first.update(F.col("key").isin("a", "z"), {"value": F.col("value") + 9})
    assert [conflict.winner.version for conflict in result.resolved] == [2]
    assert rows_of(table.toDF()) == [("a", 10), ("c", 3), ("d", 4)]


def test_merges_of_other_rows_of_one_file_both_land(spark, make):
    table = make()
    meanwhile = Meanwhile(lambda: _upsert(table, _source(spark, [("c", 30)])))
    done = _upsert(table.observed(meanwhile), _source(spark, [("a", 10), ("e", 50)]))
    assert len(done.resolved) == 1
    assert rows_of(table.toDF()) == [("a", 10), ("b", 2), ("c", 30), ("d", 4), ("e", 50)]


def test_merges_of_one_row_conflict(spark, make):
    table = make()
    meanwhile = Meanwhile(lambda: _upsert(table, _source(spark, [("a", 30)])))
    with pytest.raises(DeltaConcurrentModificationException):
        _upsert(table.observed(meanwhile), _source(spark, [("a", 10)]))
    assert rows_of(table.toDF())[0] == ("a", 30)


def test_a_function_of_the_source_alone_is_one_more_column_of_it(spark, make):
    table, shout = make(), F.udf(lambda key: key.lower(), "string")
    meanwhile = Meanwhile(lambda: table.delete("key = 'b'"))
    merging = (
        table.alias("t")
        .observed(meanwhile)
        .merge(_source(spark, [("A", 10)]), F.col("t.key") == shout("s.key"))
    )
    done = merging.whenMatchedUpdate(set={"value": F.col("s.value")}).execute()
    assert len(done.resolved) == 1
    assert rows_of(table.toDF()) == [("a", 10), ("c", 3), ("d", 4)]


def test_conditions_that_only_spark_evaluates_read_whole_files(spark, make):
    table, is_first = make(), F.udf(lambda key: key == "a", "boolean")
    first = table.observed(Meanwhile(lambda: table.delete("key = 'b'")))
    with pytest.raises(DeltaConcurrentModificationException) as caught:
        first.delete(is_first("key"))
    assert "only Spark can evaluate" in caught.value.conflict.row_level
    assert rows_of(table.toDF()) == [("a", 1), ("c", 3), ("d", 4)]


def test_the_part_that_has_a_tree_still_leaves_files_out(spark, make):
    table = make(schema="key string, value bigint, p int", rows=[("a", 1, 1)])
    more = spark.createDataFrame([("b", 2, 2)], "key string, value bigint, p int")
    table.merge(more, "false").whenNotMatchedInsertAll().execute()
    is_first = F.udf(lambda key: key == "a", "boolean")
    first = table.observed(Meanwhile(lambda: table.delete("p = 2")))
    first.delete((F.col("p") == 1) & is_first("key"))
    assert rows_of(table.toDF()) == []


def test_text_that_the_engine_does_not_know_is_sparks_in_its_smallest_part(spark, make):
    table = make(schema="key string, value bigint, p int", rows=[("a", 1, 1), ("b", 2, 1)])
    first = table.observed(Meanwhile(lambda: table.delete("p = 2")))
    first.delete("p = 1 and regexp_like(key, '^a$') and value between 0 and 5")
    assert rows_of(table.toDF()) == [("b", 2, 1)]


def test_values_of_functions_do_not_keep_an_overlap_from_row_level(spark, make):
    table, doubled = make(), F.udf(lambda value: value * 2, "bigint")
    first = table.observed(Meanwhile(lambda: table.delete("key = 'b'")))
    first.update("key = 'a'", {"value": doubled("value")})
    assert rows_of(table.toDF()) == [("a", 2), ("c", 3), ("d", 4)]


def test_a_source_made_from_the_table_is_read_at_the_version_of_the_write(spark, make):
    table = make()
    seen = table.toDF().where("key = 'a'").select("key", (F.col("value") + 1).alias("value"))
    table.update("key = 'a'", {"value": "100"})
    _upsert(table, seen.alias("s"))
    assert rows_of(table.toDF())[0] == ("a", 101)


def test_a_source_made_from_the_empty_table_is_read_at_the_version_of_the_write(spark, make):
    table = make([])
    seen = table.toDF()
    table.merge(_source(spark, [("a", 1)]), "false").whenNotMatchedInsertAll().execute()
    source = seen.unionByName(_source(spark, [("z", 26)])).alias("s")
    _upsert(table.observed(Meanwhile(lambda: None)), source)
    assert rows_of(table.toDF()) == [("a", 1), ("z", 26)]


def test_a_write_of_an_application_is_done_once(spark, make):
    table = make()
    once = table.option("txnAppId", "upserts").option("txnVersion", 7)
    assert once.update(set={"value": "value + 1"}).version == 2
    assert once.update(set={"value": "value + 1"}).version is None
    _upsert(once, _source(spark, [("z", 26)]))
    assert rows_of(table.toDF())[0] == ("a", 2)
    assert once.option("txnVersion", 8).delete("key = 'a'").version == 3
    assert table.toDF().count() == 3


def test_two_writers_of_one_application_conflict(spark, make):
    table = make()
    one = table.option("txnAppId", "upserts").option("txnVersion", 7)
    first = one.observed(Meanwhile(lambda: one.delete("key = 'b'")))
    with pytest.raises(ConcurrentTransactionException):
        first.delete("key = 'a'")


def test_retries_begin_again_after_a_conflict(spark, make):
    table = make()
    first = table.observed(Meanwhile(lambda: table.update("key = 'a'", {"value": "value + 10"})))
    with pytest.raises(
        (ConcurrentDeleteReadException, ConcurrentDeleteDeleteException, ConcurrentAppendException)
    ):
        first.update("key = 'a'", {"value": "value + 100"})
    again = table.observed(Meanwhile(lambda: table.update("key = 'a'", {"value": "value + 10"})))
    again.retries(1).update("key = 'a'", {"value": "value + 100"})
    assert rows_of(table.toDF())[0] == ("a", 121)


def test_rows_chosen_by_a_random_source_are_the_rows_written(spark, make):
    table = make(enableChangeDataFeed="true")
    source = _source(spark, [("a", 0)]).select(
        "key", (F.rand() * 1_000_000).cast("long").alias("value")
    )
    merging = table.alias("t").merge(source.alias("s"), "t.key = s.key")
    merging.whenMatchedUpdate("s.value > 1", {"value": "s.value"}).execute()
    written = table.toDF().where("key = 'a'").first().value
    table.update("key = 'b'", {"value": (F.rand() * 1_000_000).cast("long")})
    assert written > 1
    assert table.toDF().where("key = 'b'").first().value != 2


def test_functions_are_called_once_for_each_row_where_files_are_rewritten(spark, make, tmp_path):
    table = make(enableDeletionVectors="false")
    counter = spark.sparkContext.accumulator(0)

    def is_picked(key):
        counter.add(1)
        return key == "a"

    table.delete(F.udf(is_picked, "boolean")("key"))
    assert rows_of(table.toDF()) == [("b", 2), ("c", 3), ("d", 4)]
    assert counter.value == 4


@pytest.mark.parametrize("retries", [0, 2])
def test_a_frame_of_the_table_is_read_again_at_each_retry(spark, make, retries):
    table = make()
    frame = table.toDF().select("key", (F.col("value") + 1).alias("value")).alias("s")
    losing = table.retries(retries).observed(
        Meanwhile(lambda: table.update("key = 'a'", {"value": "100"}))
    )
    if retries:
        _upsert(losing, frame)
    else:
        with pytest.raises(DeltaConcurrentModificationException):
            _upsert(losing, frame)
    assert rows_of(table.toDF())[0] == ("a", 101 if retries else 100)


@pytest.mark.parametrize("retries", [0, 1])
def test_sql_text_reads_its_source_again_at_each_retry(lake, monkeypatch, retries):
    lake.sql(f"CREATE OR REPLACE TABLE counts{retries} (key STRING, value BIGINT) USING delta")
    lake.sql(f"INSERT INTO counts{retries} VALUES ('a', 1)")
    table = DeltaTable.forName(lake, f"counts{retries}")
    meanwhile = Meanwhile(lambda: table.update(set={"value": "100"}))
    monkeypatch.setattr("engine.delta.statements.Handle", partial(Handle, observer=meanwhile))
    merge = (
        f"MERGE INTO counts{retries} t USING (SELECT key, value + 1 AS value FROM counts{retries}) s"
        " ON t.key = s.key WHEN MATCHED THEN UPDATE SET value = s.value"
    )
    enable(lake, retries=retries)
    try:
        if retries:
            lake.sql(merge)
        else:
            with pytest.raises(DeltaConcurrentModificationException, match="Retry it"):
                lake.sql(merge)
    finally:
        enable(lake, retries=0)
    assert rows_of(table.toDF()) == [("a", 101 if retries else 100)]
