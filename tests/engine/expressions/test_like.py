"""LIKE: Arrow's answer, its rendering for Spark, and refused patterns."""

import pyarrow as pa
import pytest

from engine.errors import ExpressionError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.like import LIKE, MAX_WILDCARDS
from engine.expressions.parse import parse_condition
from engine.expressions.render import quote_string
from engine.expressions.spark_rewrites import adapt_to_spark
from engine.expressions.tree import Call, walk
from engine.schema.types import STRING, StructField, StructType
from tests.engine.expressions.like_model import matches, patterns, replace_escape, texts

SCHEMA = StructType((StructField("s", STRING), StructField("p", STRING)))


def _condition(text):
    return parse_condition(text, SCHEMA)


@pytest.mark.parametrize("escape", ["\\", "/", "E", "."])
def test_arrow_matches_the_same_texts_as_the_model(escape):
    values = texts(60)
    table = pa.table({"s": pa.array(values, pa.string())})
    for pattern in patterns(120):
        written = replace_escape(escape, pattern)
        text = f"s LIKE {quote_string(written)} ESCAPE {quote_string(escape)}"
        expected = [None if value is None else matches(value, pattern) for value in values]
        assert evaluate_arrow(_condition(text), table).to_pylist() == expected, text


@pytest.mark.parametrize("pattern", ["a", "a%", "%a", "%a%", "a%b", "%", ""])
def test_patterns_that_spark_compares_byte_by_byte_stay_like(pattern):
    tree = _condition(f"s LIKE '{pattern}'")
    assert adapt_to_spark(tree) == tree


@pytest.mark.parametrize("text", ["s LIKE '%a%a%b'", "s LIKE p", "s ILIKE '%Ä%a%'", "s LIKE '_'"])
def test_any_other_pattern_is_matched_without_going_back(text):
    made = adapt_to_spark(_condition(f"NOT ({text}) OR s IS NULL"))
    called = {node.function for node in walk(made) if isinstance(node, Call)}
    assert "rlike" in called
    assert not called & LIKE
    assert adapt_to_spark(made) == made


def test_a_wildcard_may_be_the_escape():
    table = pa.table({"s": ["a%b", "a%%b", "axb"]})
    result = evaluate_arrow(_condition("s LIKE 'a%%_' ESCAPE '%'"), table)
    assert result.to_pylist() == [True, False, False]


@pytest.mark.parametrize("pattern", ["a\\\\", "a\\\\b", "\\\\a%"])
def test_a_misplaced_escape_is_refused(pattern):
    with pytest.raises(ExpressionError, match="before a character other than %, _ and"):
        _condition(f"s LIKE '{pattern}'")


def test_an_escape_of_ilike_is_one_in_lower_case_only():
    assert adapt_to_spark(_condition("s ILIKE '%A!_%b' ESCAPE '!'"))
    with pytest.raises(ExpressionError, match="before a character other than"):
        _condition("s ILIKE 'XB%' ESCAPE 'x'")


@pytest.mark.parametrize("wildcard", ["_", "%a"])
def test_a_pattern_with_too_many_wildcards_is_refused(wildcard):
    assert _condition(f"s LIKE '{wildcard * MAX_WILDCARDS}'")
    assert _condition(f"s LIKE '{'!_' * (MAX_WILDCARDS + 1)}' ESCAPE '!'")
    with pytest.raises(ExpressionError, match=f"{MAX_WILDCARDS} is the limit"):
        _condition(f"s LIKE '{wildcard * (MAX_WILDCARDS + 1)}'")


def test_a_pattern_that_comes_from_a_pattern_is_refused():
    assert _condition("if(s LIKE p, 'a', 'b') LIKE p")
    with pytest.raises(ExpressionError, match="contains another pattern"):
        _condition("s LIKE if(s LIKE p, 'a', 'b')")
