"""Regular expressions: an accepted pattern matches as written in bounded time; others are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ExpressionError
from engine.expressions.parse import parse_expression
from engine.expressions.regex import MAX_TEXT, limit_pattern
from engine.expressions.render import to_sql
from engine.expressions.spark_rewrites import adapt_to_spark
from engine.schema.types import STRING, StructField, StructType

SCHEMA = StructType((StructField("s", STRING),))
BOMBS = [
    "(a+)+$", "(a|a)*b", "(a*)*", "(.*)*x", "([a-z]+)*$", "^(a?){30}a{30}$", "a*a*a*b", "(a|aa)+$",
    "x*x*y", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){12}", ".*.*=.*", "(a{1,9}){1,9}b",
    "a?a?a?a?a?a?a?a?a?b", "(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)c", "((a{20}){20}){20}", "(a|b)+",
    "foo.*bar[0-9]+x", "[a-z]*?[a-z]*?1",
]  # fmt: skip
NOT_TAKEN = [
    "(?<=a)b", "(?=a)", "(?!a)", "(?<n>a)", r"\1", r"(a)\1", r"\p{L}", "a**", "a{", "a{2,1}", "[a",
    "(a", "a)", "[]", "[a&&b]", "[[a]]", "*a", "a\\", r"\Qa\E", "^*", "(?m)a", "a{1001}", "x" * 501,
    r"\x41", "[z-a]", "(" * 11 + ")" * 11, "a++", "a{999999}", "[ä-ü]",
]  # fmt: skip
TAKEN = [
    r"^[a-z]+@[a-z]+\.com$", "foo.*bar", "a|b|cd", r"(\d{4})-(\d{2})", "[^,]*,[^,]*", "(?i)Abc",
    "(?s)a.c", r"\bword\b", "(ab){3}", "(a|b)?c", "a{2,4}b", "x*$", "", "ä+", r"[\w.-]+@", r"\$\{x\}",
    "(?:a|b)c+", "^.*foo.*$", "a.*?b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", [*BOMBS, *NOT_TAKEN])
def test_slow_or_unknown_patterns_are_refused(pattern):
    with pytest.raises(ExpressionError, match="is not supported") as caught:
        limit_pattern(pattern, 7)
    assert caught.value.remedy
    assert caught.value.position == 7


@pytest.mark.timeout(30)  # a backtracking pattern would never end
@pytest.mark.parametrize("pattern", TAKEN)
def test_accepted_patterns_are_fast_on_every_text(pattern):
    java = re.compile(limit_pattern(pattern).java)
    for piece in ("a", "ab", "foo", "a@", "x", ",", "1-", "\n"):
        text = (piece * 2000)[:2000] + "!"
        assert all(match.end() <= len(text) for match in java.finditer(text))


PART = st.sampled_from(
    ["a", "b", "[ab]", "[^a]", ".", r"\w", r"\d", "c", "1", r"\b", "$", "^", "(a|b)", "(?:c|ca)?"]
)
TIMES = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "*?"])
PATTERN = st.lists(st.tuples(PART, TIMES).map("".join), min_size=1, max_size=5).map("".join)


@given(PATTERN, st.lists(st.text("abc1 \n", max_size=12), min_size=1, max_size=8))
def test_the_pattern_for_java_matches_the_same_texts_as_the_written_one(pattern, texts):
    try:
        java = limit_pattern(pattern).java
    except ExpressionError:
        return
    written, given_to_java = re.compile(pattern), re.compile(java)
    for text in texts:
        one, other = written.search(text), given_to_java.search(text)
        assert (one and (one.span(), one.groups())) == (other and (other.span(), other.groups()))


def test_spark_is_given_the_bounded_pattern_over_a_bounded_text():
    tree = adapt_to_spark(parse_expression("s RLIKE '^a+b'", SCHEMA))
    assert to_sql(tree).startswith(f"rlike(CASE WHEN (length(`s`)) > {MAX_TEXT} THEN ")
    assert to_sql(tree).endswith("'^a{1,}+b')")
    assert adapt_to_spark(tree) == tree


@pytest.mark.parametrize(
    "text",
    [
        "regexp_like(s, s)",
        "regexp_like(s, lower('A'))",
        "regexp_like(regexp_replace(s, 'a', 'b'), 'b')",
        "regexp_replace(s, 'a', s)",
        "regexp_replace(s, 'a', '$1')",
        "regexp_replace(s, '(a)', '$12')",
        "regexp_replace(s, 'a', 'b\\\\')",
        "regexp_replace(replace(s, 'a', 'bb'), 'b', 'cc')",
        "regexp_extract(s, '(a)', 2)",
        "regexp_extract(s, 'a')",
    ],
)
def test_patterns_that_a_function_does_not_support_are_refused(text):
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text, SCHEMA)
    assert caught.value.remedy
