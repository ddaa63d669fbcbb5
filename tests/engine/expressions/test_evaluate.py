"""Values over Arrow data, compared with Spark's."""

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import CannotEvaluateError
from engine.expressions.arrow_functions import FUNCTIONS_OF_ARROW
from engine.expressions.evaluate import evaluate_arrow, evaluate_partition, find_matches
from engine.expressions.functions import FUNCTIONS
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.tree import VOID
from engine.schema.types import LONG, DecimalType, StructField, StructType
from tests.engine.expressions import generated
from tests.engine.expressions.generated import ARROW, SCHEMA

NAN = float("nan")
TABLE = pa.Table.from_pylist(
    [
        {
            "b": 1,
            "i": 1,
            "l": 2**53 + 1,
            "f": 0.1,
            "d": NAN,
            "n": Decimal("1.50"),
            "s": "a",
            "day": dt.date(2024, 2, 29),
            "ts": dt.datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=dt.UTC),
            "ok": True,
            "st": {"x": 5, "y": None},
        },
        {"b": -1, "i": -7, "l": 0, "f": -0.0, "d": 1.0, "n": Decimal(-1), "s": "", "ok": False},
        {},
    ],
    schema=ARROW,
)

_ROWS = [
    ("d = d", [True, True, None]),
    ("d = CAST('NaN' AS DOUBLE)", [True, False, None]),
    ("d > 1e300", [True, False, None]),
    ("d < CAST('NaN' AS DOUBLE)", [False, True, None]),
    ("NOT d < 5", [True, False, None]),
    ("d IN (CAST('NaN' AS DOUBLE), 2)", [True, False, None]),
    ("f = 0.1", [False, False, None]),
    ("f = 0.1F", [True, False, None]),
    ("f = 0", [False, True, None]),
    ("l = 9007199254740992D", [True, False, None]),
    ("l = 9007199254740992", [False, False, None]),
    ("n = 1.5 AND n = i + 0.5", [True, False, None]),
    ("i <=> NULL", [False, False, True]),
    ("i = NULL", [None, None, None]),
    ("i IN (1, NULL)", [True, None, None]),
    ("i NOT IN (1, NULL)", [False, None, None]),
    ("i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, NULL)", [True, None, None]),
    ("i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)", [True, False, None]),
    ("ok OR i = NULL", [True, None, None]),
    ("ok AND i = NULL", [None, False, None]),
    ("NOT (ok AND i = NULL)", [None, True, None]),
    ("s = '' OR s IS NULL", [False, True, True]),
    ("i % 3 = -1", [False, True, None]),
    ("pmod(i, 3) = 2", [False, True, None]),
    ("l % (b * 5 + 4) = 6", [True, False, None]),
    ("pmod(i, b * 5 + 4) = 1", [True, False, None]),
    ("i DIV 2 = -3", [False, True, None]),
    ("i / 2 = -3.5", [False, True, None]),
    ("day = '2024-02-29'", [True, None, None]),
    ("ts > day", [True, None, None]),
    ("CAST(ts AS DATE) = day", [True, None, None]),
    ("add_months(day, 12) = '2025-02-28'", [True, None, None]),
    ("day + INTERVAL 1 YEAR = '2025-02-28'", [True, None, None]),
    ("date_trunc('month', ts) = '2024-02-01'", [True, None, None]),
    ("st.x = 5 AND st.y IS NULL", [True, None, None]),
    ("st IS NULL", [False, True, True]),
    ("coalesce(s, 'none') = 'none'", [False, False, True]),
    ("CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END = 'n'", [False, True, None]),
    ("nullif(i, 1) IS NULL", [True, False, True]),
    ("greatest(i, NULL, 0) = 0", [False, True, True]),
    ("least(d, 2) = 2", [True, False, True]),
    ("substring(s, 0, 1) = 'a'", [True, False, None]),
    ("s LIKE '_'", [True, False, None]),
    ("TRUE", [True, True, True]),
]


@pytest.mark.parametrize(("text", "expected"), _ROWS, ids=[text for text, _ in _ROWS])
def test_conditions_have_sparks_values(text, expected):
    assert evaluate_arrow(parse_condition(text, SCHEMA), TABLE).to_pylist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "i / (b - 1) = 1",
        "i DIV 0 = 1",
        "l + 9223372036854775807 > 0",
        "b + 127Y > 0",
        "CAST(l AS INT) = 1",
        "CAST(d AS INT) = 1",
        "CAST(s AS INT) = 1",
        "s = 5",
        "upper('ß') = s",
        "date_format(day, 'yyyy') = '2024'",
        "rand() < 2",
        "s LIKE s",
        "hash(i) = 1",
        "n / 3 = 1",
        "date_trunc('eon', ts) = ts",
    ],
)
def test_inexact_results_are_not_evaluated(text):
    with pytest.raises(CannotEvaluateError):
        evaluate_arrow(parse_condition(text, SCHEMA), TABLE)


def test_the_type_of_the_result_is_that_of_the_expression():
    result = evaluate_arrow(parse_expression("i + 1L", SCHEMA), TABLE)
    assert result.type == pa.int64()
    assert result.to_pylist() == [2, -6, None]


def test_a_table_without_rows_or_columns_still_has_a_value():
    condition = parse_condition("i = 1 OR s = 'a'", SCHEMA)
    assert evaluate_arrow(condition, TABLE.slice(0, 0)).to_pylist() == []
    assert evaluate_arrow(condition, TABLE.select(["d"])).to_pylist() == [None] * 3


def test_other_arrow_types_of_the_same_values_are_accepted():
    schema = pa.schema(
        [
            ("s", pa.dictionary(pa.int32(), pa.string())),
            ("ts", pa.timestamp("ns", "Europe/Berlin")),
            ("i", pa.int64()),
            ("n", pa.decimal128(20, 2)),
        ]
    )
    table = pa.Table.from_pylist(
        [{"s": "a", "ts": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "i": 1, "n": Decimal(1)}],
        schema=schema,
    )
    condition = parse_condition("s = 'a' AND ts = '2024-01-01' AND i = 1 AND n = 1", SCHEMA)
    assert find_matches(condition, table).to_pylist() == [True]


def test_chunks_are_evaluated_one_by_one():
    table = pa.concat_tables([TABLE, TABLE])
    result = evaluate_arrow(parse_condition("ok", SCHEMA), table)
    assert result.to_pylist() == [True, False, None] * 2


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("day = '2024-02-29'", {"day": dt.date(2024, 2, 29)}, True),
        ("day > '2024-02-29' OR i = 1", {"day": dt.date(2024, 2, 29), "i": None}, None),
        ("i IS NULL", {"i": None}, True),
        ("1 = 1", {}, True),
    ],
)
def test_a_partition_has_one_truth(text, values, expected):
    assert evaluate_partition(parse_condition(text, SCHEMA), values) is expected


def test_a_partition_does_not_know_other_columns():
    with pytest.raises(CannotEvaluateError):
        evaluate_partition(parse_condition("i = 1 AND s = 'a'", SCHEMA), {"i": 1})


def test_a_column_may_be_called_anything():
    schema = StructType((StructField("a.b `c`", LONG),))
    table = pa.table({"a.b `c`": [1, 2]})
    condition = parse_condition("`a.b ``c``` = 2", schema)
    assert evaluate_arrow(condition, table).to_pylist() == [False, True]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("n = 12345678901234567890.123456789012345678", True),
        ("n = 12345678901234567890.123456789012345679", False),
        ("n > 12345678901234567890.123456789012345677", True),
        ("-n = -12345678901234567890.123456789012345678", True),
        ("n IN (1, 12345678901234567890.123456789012345678)", True),
        ("CAST(n AS DECIMAL(38, 10)) = 12345678901234567890.1234567890", True),
    ],
)
def test_decimals_keep_their_38_digits(text: str, matches: bool):
    schema = StructType((StructField("n", DecimalType(38, 18)),))
    value = Decimal("12345678901234567890.123456789012345678")
    rows = pa.table({"n": pa.array([value], pa.decimal128(38, 18))})
    assert find_matches(parse_condition(text, schema), rows).to_pylist() == [matches]


@pytest.mark.parametrize(
    "text",
    ["year(day)", "month(ts)", "dayofweek(day)", "hour(ts)", "trunc(day, 'MM')",
     "date_trunc('DAY', ts)"],
)  # fmt: skip
@pytest.mark.parametrize(("days", "is_known"), [(10_900_000, True), (40_000_000, False)])
def test_parts_of_years_that_arrow_does_not_have_are_left_to_spark(
    text: str, days: int, is_known: bool
):
    moments = pa.array([days * 86_400_000_000, None], pa.int64()).view(pa.timestamp("us", "UTC"))
    dates = pa.array([days, None], pa.int32()).view(pa.date32())
    rows = pa.table({"day": dates, "ts": moments})
    tree = parse_expression(text, SCHEMA)
    if is_known:
        assert len(evaluate_arrow(tree, rows)) == 2
        return
    with pytest.raises(CannotEvaluateError, match="so many years away"):
        evaluate_arrow(tree, rows)


@pytest.mark.parametrize(
    "text",
    ["day < TIMESTAMP '2024-01-01 00:00:00'", "day = ts", "day IN (ts)", "coalesce(ts, day)"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_date_that_no_timestamp_can_be_of_is_left_to_spark(text: str, sign: int):
    """Spark fails on such a date. Arrow's number overflowed: a distant future date became a past one."""
    dates = pa.array([sign * 200_000_000], pa.int32()).view(pa.date32())
    rows = pa.table({"day": dates, "ts": pa.nulls(1, pa.timestamp("us", "UTC"))})
    with pytest.raises(CannotEvaluateError, match="overflow"):
        evaluate_arrow(parse_expression(text, SCHEMA), rows)


def test_every_function_that_arrow_has_is_compared_with_spark():
    """A function of `FUNCTIONS_OF_ARROW` belongs in a strategy of `generated.py`."""
    elsewhere = {"size", "isnull", "isnotnull"}  # no column is a list; `x IS NULL` calls the others
    named = set(re.findall(r"\w+", Path(generated.__file__).read_text("utf-8")))
    assert FUNCTIONS_OF_ARROW.keys() & FUNCTIONS.keys() - elsewhere <= named


@pytest.mark.parametrize("text", ["NULL", "v", "v AND true", "NOT NULL", "coalesce(v, NULL)"])
def test_a_condition_that_is_always_null_matches_nothing(text):
    schema = StructType((StructField("id", LONG), StructField("v", VOID)))
    table = pa.table({"id": [1, 2], "v": pa.nulls(2)})
    assert find_matches(parse_condition(text, schema), table).to_pylist() == [False, False]
