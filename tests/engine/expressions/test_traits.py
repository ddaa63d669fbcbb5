"""Traits of expressions, derived without evaluation."""

import pytest

from engine.expressions.parse import parse_condition
from engine.expressions.render import to_sql
from engine.expressions.traits import (
    columns_of,
    conjunction,
    disjunction,
    is_deterministic,
    split_conjuncts,
    uses_complex_types,
)
from engine.expressions.tree import TRUE
from tests.engine.expressions.generated import SCHEMA


def _tree(text):
    return parse_condition(text, SCHEMA, now_ms=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rand() < 0.5", False),
        ("i = 1 AND uuid() = s", False),
        ("ts < now() AND day = current_date()", True),
        ("CAST(i AS STRING) = 'a' AND try_cast(s AS INT) = 1", True),
        ("i % 2 = 1 OR s LIKE 'a' OR CASE WHEN ok THEN ok END", True),
    ],
)
def test_only_random_functions_are_not_deterministic(text, expected):
    assert is_deterministic(_tree(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("st.x = 1", True), ("st IS NULL", True), ("i = 1 AND s = 'a'", False)],
)
def test_struct_values_make_a_condition_complex(text, expected):
    assert uses_complex_types(_tree(text)) is expected


def test_columns_are_named_as_the_schema_names_them():
    assert columns_of(_tree("I = 1 AND ST.X > L")) == {("i",), ("st", "x"), ("l",)}


def test_a_mixed_predicate_splits_only_across_and():
    assert [to_sql(part) for part in split_conjuncts(_tree("i = 1 AND (s = 'a' OR l = 2)"))] == [
        "`i` = 1",
        "(`s` = 'a') OR (`l` = 2)",
    ]
    assert len(split_conjuncts(_tree("i = 1 OR l > 2019"))) == 1


def test_joining_split_conjuncts_gives_the_same_tree():
    tree = _tree("i = 1 AND s = 'a' AND ok")
    assert conjunction(split_conjuncts(tree)) == tree


def test_no_predicate_at_all_reads_everything():
    assert conjunction([]) == TRUE
    assert disjunction([]) == TRUE
