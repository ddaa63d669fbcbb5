"""Whole numbers beside constants beyond all of them, as Spark is given them."""

import pytest

from engine.expressions.like import for_spark
from engine.expressions.parse import parse_condition
from engine.expressions.render import to_sql
from engine.schema.types import LONG, DecimalType, StructField, StructType

SCHEMA = StructType((StructField("i", LONG), StructField("n", DecimalType(38, 2))))


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
    made = for_spark(tree)
    assert to_sql(made) == (to_sql(tree) if given is None else given)
    assert for_spark(made) == made
