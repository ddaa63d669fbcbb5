"""Literal values: a bare number or text becomes the same tree as in any expression."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import ExpressionError
from engine.expressions.parse import parse_expression, parse_value
from engine.schema.types import StructType

BARE = st.from_regex(r"-?[0-9]{1,20}([A-Za-z.][0-9]{0,3}[A-Za-z]{0,2})?", fullmatch=True)
TEXTS = st.text("ab-'\\/*?:", max_size=6).map("'{}'".format)


def _parse_or_error(parse, text):
    try:
        return parse(text)
    except ExpressionError as error:
        return error.what, error.position


@given(BARE | TEXTS | st.text("0123456789.eEdDfFlLbB+-'", max_size=8))
@example("99999999999999999999")
@example("1e400")
@example("'a--b'")
@example("1 -- one")
def test_a_value_is_parsed_as_an_expression_without_columns(text):
    expected = _parse_or_error(lambda given: parse_expression(given, StructType()), text)
    assert _parse_or_error(parse_value, text) == expected
    assert _parse_or_error(parse_value, text) == expected  # the second time too


@pytest.mark.parametrize("text", ["current_timestamp()", "current_date()", "1 + 1"])
def test_values_that_depend_on_the_time_are_not_cached(text):
    early, late = (parse_value(text, now_ms=ms) for ms in (0, 10**12))
    assert (early == late) is (text == "1 + 1")
