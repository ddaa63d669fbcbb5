"""Round trips: a tree, its SQL and the tree of that SQL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ExpressionError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.render import quote_name, quote_string, to_sql
from engine.schema.types import LONG, StructField, StructType
from tests.engine.expressions.generated import SCHEMA, conditions, rows


@given(conditions())
def test_rendered_sql_parses_to_the_same_tree(text):
    try:
        tree = parse_condition(text, SCHEMA, now_ms=0)
    except ExpressionError:
        return
    assert parse_condition(to_sql(tree), SCHEMA, now_ms=1) == tree


@given(st.text())
def test_any_string_survives_rendering(text):
    rendered = quote_string(text)
    assert parse_expression(rendered, StructType()).value == text
    assert "$" not in rendered


@given(st.text(min_size=1).filter(lambda name: "${" not in name and "\0" not in name))
def test_any_column_name_survives_rendering(name):
    schema = StructType((StructField(name, LONG),))
    assert parse_expression(quote_name(name), schema).path == (name,)


def test_a_name_that_spark_would_substitute_is_refused():
    with pytest.raises(ExpressionError, match="variable"):
        quote_name("${env:HOME}")


@given(conditions(), rows(4))
def test_a_condition_and_its_rendering_have_the_same_values(text, table):
    try:
        tree = parse_condition(text, SCHEMA, now_ms=0)
        expected = evaluate_arrow(tree, table)
    except Exception as error:  # noqa: BLE001 - which errors may leave is what this test is about
        assert type(error).__name__ in {"ExpressionError", "CannotEvaluateError"}  # noqa: PT017
        return
    assert evaluate_arrow(parse_condition(to_sql(tree), SCHEMA), table) == expected
