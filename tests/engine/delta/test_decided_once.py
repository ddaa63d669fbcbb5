"""Random values, UUIDs and functions with side effects: evaluated once, and written as evaluated."""

import pandas as pd
import pytest
from pyspark.sql import functions as F  # noqa: N812

from tests.engine.delta.conftest import rows_of
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
TOKENS = "key string, value bigint, token string"


def _changes(spark, table, *kinds):
    """Return the rows of the change feed's files of these kinds."""
    place = table.detail().first().location
    rows = spark.read.schema(f"{TOKENS}, _change_type string").parquet(f"{place}/_change_data")
    return rows_of(rows.where(F.col("_change_type").isin(*kinds)).drop("_change_type"))


@pytest.fixture
def calls(spark):
    """Return `calls(function, kind)`: a Python or pandas function, and its number of evaluated rows."""

    def count_calls(function, kind, vectorized=False):
        counter = spark.sparkContext.accumulator(0)

        def call_vectorized(values: pd.Series) -> pd.Series:
            counter.add(len(values))
            return function(values)

        def call_once(value):
            counter.add(1)
            return function(value)

        made = F.pandas_udf(call_vectorized, kind) if vectorized else F.udf(call_once, kind)
        return made, counter

    return count_calls


def test_a_random_source_is_read_once_for_conditions_rows_and_the_change_feed(spark, make):
    table = make([(key, 1, "old") for key in "abcdefgh"], TOKENS, enableChangeDataFeed="true")
    keys = F.when(F.col("id") < 8, F.substring(F.lit("abcdefgh"), (F.col("id") + 1).cast("int"), 1))
    source = spark.range(60).select(
        F.coalesce(keys, F.concat(F.lit("n"), F.col("id"))).alias("key"),
        (F.rand() * 1_000_000).cast("bigint").alias("value"),
        F.expr("uuid()").alias("token"),
    )
    merging = (
        table.alias("t")
        .merge(source.alias("s"), "t.key = s.key")
        .whenMatchedUpdate("s.value % 2 = 0", {"value": "s.value", "token": "s.token"})
        .whenMatchedDelete()
        .whenNotMatchedInsertAll("s.value % 3 <> 0")
    )
    counts = merging.execute().first()
    rows = rows_of(table.toDF())
    inserted = [row for row in rows if row[0].startswith("n")]
    updated = [row for row in rows if not row[0].startswith("n")]
    assert all(value % 3 for _, value, _ in inserted)
    assert not any(value % 2 for _, value, _ in updated)
    assert counts.num_inserted_rows == len(inserted) > 0
    assert (counts.num_updated_rows, counts.num_deleted_rows) == (len(updated), 8 - len(updated))
    assert _changes(spark, table, "insert") == inserted
    assert _changes(spark, table, "update_postimage") == updated
    assert len(_changes(spark, table, "delete")) == 8 - len(updated)


@pytest.mark.parametrize("vectorized", one_in(2, [True, False]))
def test_functions_are_called_once_for_each_row_of_a_merge(spark, make, calls, vectorized):
    table = make(enableChangeDataFeed="true")
    of_source, source_calls = calls(lambda value: value * 10, "bigint", vectorized)
    of_pairs, pair_calls = calls(lambda value: value > 1, "boolean", vectorized)
    of_values, value_calls = calls(lambda value: value + 1, "bigint", vectorized)
    rows = [("a", 1), ("b", 2), ("c", 3), ("x", 24), ("y", 25)]
    source = spark.createDataFrame(rows, "key string, value bigint")
    source = source.select("key", of_source("value").alias("value")).alias("s")
    merging = table.alias("t").merge(source, "t.key = s.key")
    merging = merging.whenMatchedUpdate(of_pairs("t.value"), {"value": of_values("t.value")})
    merging.whenNotMatchedInsertAll().execute()
    expected = [("a", 1), ("b", 3), ("c", 4), ("d", 4), ("x", 240), ("y", 250)]
    assert rows_of(table.toDF()) == expected
    assert (source_calls.value, pair_calls.value) == (5, 3)
    assert value_calls.value in {2, 3}  # a batch of pandas may include rows that no clause matches


@pytest.mark.parametrize("vectorized", one_in(2, [True, False]))
def test_functions_are_called_once_for_each_row_of_an_update(make, calls, vectorized):
    table = make(enableChangeDataFeed="true")
    picks, pick_calls = calls(lambda value: value > 2, "boolean", vectorized)
    adds, add_calls = calls(lambda value: value + 1, "bigint", vectorized)
    table.update(picks("value"), {"value": adds("value")})
    assert rows_of(table.toDF()) == [("a", 1), ("b", 2), ("c", 4), ("d", 5)]
    assert (pick_calls.value, add_calls.value) == (4, 2)
