"""Possible truth values under column bounds: at least those of the rows within the bounds."""

import pyarrow as pa
import pytest
from hypothesis import given

from engine.errors import CannotEvaluateError, ExpressionError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_condition
from engine.expressions.possible_values import (
    NULL,
    TruthValues,
    ValueRange,
    constant,
    possible,
    prefix_upper_bound,
)
from tests.engine.expressions.generated import SCHEMA, rows, skippable_conditions


def _column_bounds(table: pa.Table):
    """Return the tightest bounds of each column of a table."""

    def bounds(column):
        values = table.column(column.path[0]).to_pylist()
        for name in column.path[1:]:
            values = [None if value is None else value[name] for value in values]
        present = [value for value in values if value is not None]
        ordered = [value for value in present if value == value and not isinstance(value, dict)]
        return ValueRange(
            min(ordered, default=None),
            max(ordered, default=None),
            values=bool(ordered) or any(isinstance(value, dict) for value in present),
            null=len(present) < len(values),
            nan=any(value != value for value in present),
        )

    return bounds


@given(rows(4), skippable_conditions())
def test_every_truth_that_occurs_is_possible(table, text):
    try:
        tree = parse_condition(text, SCHEMA, now_ms=0)
        results = set(evaluate_arrow(tree, table).to_pylist())
    except (ExpressionError, CannotEvaluateError):
        return
    outcomes = possible(tree, _column_bounds(table))
    assert not (True in results and not outcomes.true)
    assert not (False in results and not outcomes.false)
    assert not (None in results and not outcomes.null)


NAN = constant(float("nan"))
_ROWS = [
    ("i = 5", ValueRange(1, 9, null=False, nan=False), (True, True, False)),
    ("i = 5", constant(5), (True, False, False)),
    ("i = 5", NULL, (False, False, True)),
    ("i <=> 5", NULL, (False, True, False)),
    ("if(i > 1, 5, 0) = 0", NULL, (True, False, False)),
    ("if(i > i, i, 0) = 0", NULL, (True, False, False)),
    ("CASE WHEN i > 1 THEN 1 ELSE 0 END = 0", NULL, (True, False, False)),
    ("coalesce(i > 1, false) = false", NULL, (True, False, False)),
    ("i <=> NULL", NULL, (True, False, False)),
    ("i IN (1, 2)", constant(2), (True, False, False)),
    ("i IN (1, NULL)", constant(2), (False, False, True)),
    ("i IN (1, NULL)", ValueRange(1, 2, null=False, nan=False), (True, False, True)),
    ("i NOT IN (1, 9)", ValueRange(2, 8, null=True, nan=False), (True, False, True)),
    ("i IN (1, 5, 9)", ValueRange(6, 8, null=False, nan=False), (False, True, False)),
    ("d > 5", ValueRange(1.0, 2.0, null=False), (True, True, False)),
    ("d > 5", ValueRange(1.0, 2.0, null=False, nan=False), (False, True, False)),
    ("d >= CAST('NaN' AS DOUBLE)", NAN, (True, False, False)),
    ("d < 5", NAN, (False, True, False)),
    ("d IN (1, CAST('NaN' AS DOUBLE))", NAN, (True, False, False)),
    ("i IS NULL", ValueRange(null=False), (False, True, False)),
    ("s LIKE 'ab%'", ValueRange("b", "c", null=False, nan=False), (False, True, False)),
    ("s LIKE 'ab%'", ValueRange("aa", "abz", null=False, nan=False), (True, True, False)),
    ("ok", constant(False), (False, True, False)),
    ("NOT ok", NULL, (False, False, True)),
    ("ok AND NULL", constant(True), (False, False, True)),
    ("ok OR NULL", constant(True), (True, False, False)),
    ("abs(i) = 5", constant(-5), (True, False, False)),
    ("abs(i) = 5", ValueRange(-9, -6, null=False, nan=False), (True, True, True)),
]


@pytest.mark.parametrize(
    ("text", "given_range", "expected"), _ROWS, ids=[f"{n}-{row[0]}" for n, row in enumerate(_ROWS)]
)
def test_bounds_decide_the_possible_truth_values(text, given_range, expected):
    tree = parse_condition(text, SCHEMA)
    assert possible(tree, lambda _: given_range) == TruthValues(*expected)


@pytest.mark.parametrize(
    ("prefix", "above"),
    [
        ("a", "b"),
        ("az", "a{"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("", None),
        ("\ud7ff", "\ue000"),
    ],
)
def test_the_first_text_after_all_with_a_prefix(prefix, above):
    assert prefix_upper_bound(prefix) == above
