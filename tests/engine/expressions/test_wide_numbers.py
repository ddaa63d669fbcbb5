"""Wide numbers as rendered for Spark."""

from decimal import Decimal

import pyarrow as pa
import pytest

from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.render import to_sql
from engine.expressions.spark_rewrites import adapt_to_spark
from engine.schema.types import LONG, DecimalType, StructField, StructType
from engine.spark.columns import to_column

SCHEMA = StructType(
    (
        StructField("i", LONG),
        StructField("n", DecimalType(38, 2)),
        StructField("m", DecimalType(34, 2)),
    )
)
WIDEST = Decimal("-12345678901234567890.123456789012345678")


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("i < 9223372036854775808", "`i` < (CAST(9223372036854775808BD AS DECIMAL(19,0)))"),
        ("-9223372036854775809 <= i", "(CAST(-9223372036854775809BD AS DECIMAL(19,0))) <= `i`"),
        ("i + 1 >= 1e0BD * 0 OR n < 9223372036854775808", None),
        ("i < 9223372036854775807 AND i > 1.5 AND i = 9223372036854775808", None),
    ],
)
def test_a_constant_beyond_bigint_is_behind_a_cast(text, given):
    tree = parse_condition(text, SCHEMA)
    made = adapt_to_spark(tree)
    assert to_sql(made) == (to_sql(tree) if given is None else given)
    assert adapt_to_spark(made) == made


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (
            "-n < 1",
            "(CAST(replace(concat('-', CAST(`n` AS STRING)), '--', '') AS DECIMAL(38,2))) < 1",
        ),
        ("-m < 1 AND -i < 1", None),
    ],
)
def test_a_wide_decimal_is_negated_by_its_text(text, given):
    tree = parse_condition(text, SCHEMA)
    made = adapt_to_spark(tree)
    assert to_sql(made) == (to_sql(tree) if given is None else given)
    assert adapt_to_spark(made) == made


@pytest.mark.spark
def test_spark_negates_every_digit(spark):
    values = [WIDEST, WIDEST.copy_negate(), Decimal(0), Decimal("1E-18"), Decimal("-1E-18"), None]
    kind = DecimalType(38, 18)
    rows = pa.table({"n": pa.array(values, pa.decimal128(38, 18))})
    tree = parse_expression("-n", StructType((StructField("n", kind),)), now_ms=0)
    negated = spark.createDataFrame(rows).select(to_column(tree).alias("n")).toArrow()
    expected = [None if value is None else value.copy_negate() for value in values]
    assert negated.column("n").to_pylist() == expected
