"""IN with a NULL among its options: its rendering for Spark, and Spark's answer."""

import pytest
from pyspark.sql import SparkSession

from engine.expressions.parse import parse_condition
from engine.expressions.render import to_sql
from engine.expressions.spark_rewrites import adapt_to_spark
from engine.schema.types import DOUBLE, LONG, StructField, StructType
from engine.spark.columns import to_column

SCHEMA = StructType((StructField("i", LONG), StructField("x", DOUBLE)))
MANY = ", ".join(map(str, range(12)))


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("x IN (1D, NULL)", "(`x` IN (1.0D)) OR CAST(NULL AS BOOLEAN)"),
        ("i IN (1D, CAST(NULL AS INT))", "(`i` IN (1.0D)) OR CAST(NULL AS BOOLEAN)"),
        ("x NOT IN (NULL, 1D)", "NOT ((`x` IN (1.0D)) OR CAST(NULL AS BOOLEAN))"),
        ("x IN (NULL)", None),
        ("x IN (1D, 2D) AND i IN (1, NULL)", None),
    ],
)
def test_null_stands_beside_the_options_of_floating_point(text, given):
    tree = parse_condition(text, SCHEMA)
    made = adapt_to_spark(tree)
    assert to_sql(made) == (to_sql(tree) if given is None else given)
    assert adapt_to_spark(made) == made


@pytest.mark.spark
def test_nan_is_in_no_list_with_null_nor_out_of_it(spark: SparkSession):
    rows = spark.createDataFrame([(float("nan"),), (1.0,), (20.0,), (None,)], "x double")
    inside = to_column(parse_condition(f"x IN ({MANY}, NULL)", SCHEMA))
    outside = to_column(parse_condition(f"x NOT IN ({MANY}, NULL)", SCHEMA))
    answers = [tuple(row) for row in rows.select(inside, outside).collect()]
    assert answers == [(None, None), (True, False), (None, None), (None, None)]
