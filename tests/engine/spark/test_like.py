"""LIKE on Spark: results equal to the model's, in a time that no pattern can prolong."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from engine.expressions.like import MAX_WILDCARDS
from engine.expressions.parse import parse_condition
from engine.expressions.render import quote_string
from engine.schema.types import STRING, StructField, StructType
from engine.spark.columns import to_column
from tests.engine.expressions.like_model import matches, patterns, replace_escape, texts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

SCHEMA = StructType((StructField("s", STRING), StructField("p", STRING)))
VALUES = texts(40)


def _column(text):
    return to_column(parse_condition(text, SCHEMA))


def _frame(spark, rows):
    return spark.createDataFrame(rows, "s string, p string").coalesce(1)


def _answer(value, pattern):
    return None if value is None or pattern is None else matches(value, pattern)


def test_spark_matches_the_same_texts_as_the_model(spark):
    tried = patterns(60)
    columns = [
        _column(f"s LIKE {quote_string(like)}").alias(f"c{n}") for n, like in enumerate(tried)
    ]
    answers = _frame(spark, [(text, None) for text in VALUES]).select(*columns).collect()
    wrong = [
        (value, pattern)
        for value, row in zip(VALUES, answers, strict=True)
        for pattern, answer in zip(tried, row, strict=True)
        if answer != _answer(value, pattern)
    ]
    assert wrong == []


def test_spark_matches_patterns_of_a_column_as_the_model_does(spark):
    escapes = ("\\", "/", "E", "$", "]")
    tried = [None, *patterns(60)]
    pairs = [(value, pattern) for value in VALUES for pattern in tried]
    wrong = []
    for escape in escapes:
        rows = [(value, p and replace_escape(escape, p)) for value, p in pairs]
        column = _column(f"s LIKE p ESCAPE {quote_string(escape)}")
        answers = _frame(spark, rows).select(column).collect()
        wrong += [
            (escape, value, pattern)
            for (value, pattern), (answer,) in zip(pairs, answers, strict=True)
            if answer != _answer(value, pattern)
        ]
    assert wrong == []


def test_ilike_is_like_in_lower_case(spark):
    rows = [("ÄPFEL und Birnen", "%ÄP%B%"), ("äpfel", "_PFEL"), ("SS", "ß"), (None, "%")]
    shown = ["s ILIKE p", "s ILIKE '%äP%b_r%'", "s ILIKE '%PF%L'", "s LIKE '%PF%L'"]
    answers = _frame(spark, rows).select(*[_column(text) for text in shown]).collect()
    assert [tuple(row) for row in answers] == [
        (True, True, False, False),
        (True, False, True, False),
        (False, False, False, False),
        (None, None, None, None),
    ]


@pytest.mark.timeout(60)
def test_a_pattern_cannot_keep_a_core_busy(spark):
    hostile = "%a" * 20 + "%b"
    frame = spark.range(1).select(
        F.repeat(F.lit("a"), 100_000).alias("s"), F.lit(hostile).alias("p")
    )
    shown = [f"s LIKE '{hostile}'", "s LIKE p", f"s ILIKE '{hostile}'", "s LIKE '%a_a%a_%_b%'"]
    assert frame.select(*[_column(text) for text in shown]).collect() == [(False,) * 4]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("a\\", "before a character other than"), ("_" * (MAX_WILDCARDS + 1), "wildcards")],
)
def test_a_pattern_of_a_row_that_spark_cannot_match_fails_by_name(spark, pattern, reason):
    with pytest.raises(PySparkException, match=reason):
        _frame(spark, [("a", pattern)]).select(_column("s LIKE p")).collect()
