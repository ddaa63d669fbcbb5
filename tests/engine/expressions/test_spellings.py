# ruff: noqa: S608 - queries are what is tested
"""Spark's alternative spellings mean the same as the plain ones, and nothing else."""

import pytest

from engine.errors import ExpressionError
from engine.expressions.parse import parse_expression
from engine.expressions.queries.binder import bind_query
from engine.schema.types import (
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("id", INTEGER),
        StructField("s", STRING),
        StructField("d", DOUBLE),
        StructField("day", DATE),
        StructField("ts", TIMESTAMP),
    )
)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("s LIKE ANY ('a%', 'b%')", "s LIKE 'a%' OR s LIKE 'b%'"),
        ("s LIKE ALL ('a%', '%b')", "s LIKE 'a%' AND s LIKE '%b'"),
        ("s NOT LIKE ANY ('a%', 'b%')", "NOT s LIKE 'a%' OR NOT s LIKE 'b%'"),
        ("s NOT LIKE ALL ('a%', 'b%')", "NOT s LIKE 'a%' AND NOT s LIKE 'b%'"),
        ("s ILIKE SOME ('A')", "s ILIKE 'A'"),
        ("EXTRACT(YEAR FROM day)", "year(day)"),
        ("extract(dow FROM ts)", "dayofweek(ts)"),
        ("EXTRACT(DAYOFWEEK_ISO FROM day)", "weekday(day) + 1"),
        ("date_part('month', ts)", "month(ts)"),
        ("POSITION('a' IN s)", "instr(s, 'a')"),
        ("locate('a', s)", "instr(s, 'a')"),
        ("SUBSTRING(s FROM 2 FOR 3)", "substring(s, 2, 3)"),
        ("substr(s FROM 2)", "substring(s, 2)"),
        ("TRIM(LEADING FROM s)", "ltrim(s)"),
        ("TRIM(BOTH 'ab' FROM s)", "btrim(s, 'ab')"),
        ("DATEADD(HOUR, 3, ts)", "ts + INTERVAL 3 HOURS"),
        ("timestampadd(DAY, -1, day)", "CAST(day AS TIMESTAMP) + INTERVAL -1 DAY"),
        ("date_add(day, 1)", "day + 1"),
        ("dateadd(day, id)", "date_add(day, id)"),
        ("int(s)", "CAST(s AS INT)"),
        ("decimal(s)", "CAST(s AS DECIMAL(10, 0))"),
        ("'a' \"b\" 'c'", "'abc'"),
        (r"r'a\n'", r"'a\\n'"),
        ("s || id || day", "concat(concat(s, CAST(id AS STRING)), CAST(day AS STRING))"),
        ("ts - INTERVAL '1 02:03:04.5' DAY TO SECOND", "ts - INTERVAL '93784.5' SECOND"),
        ("ts + INTERVAL '-02:30' HOUR TO MINUTE", "ts + INTERVAL -150 MINUTES"),
        ("day + INTERVAL '1-2' YEAR TO MONTH", "day + INTERVAL 14 MONTHS"),
        ("day - INTERVAL '30 days'", "day - INTERVAL 30 DAYS"),
        ("ts + INTERVAL 'interval -1 day 2 HOURS'", "ts + INTERVAL -22 HOURS"),
        ("day + INTERVAL '1 year 2 months'", "day + INTERVAL 14 MONTHS"),
        ("d > .5", "d > 0.5"),
        ("d IN (-.5e1, 1+.25)", "d IN (-5e0, 1 + 0.25)"),
        ("+d > + id", "d > id"),
        ("(id > 1) IS UNKNOWN", "isnull(NOT (id > 1))"),
        ("(id > 1) IS NOT UNKNOWN", "NOT isnull(NOT (id > 1))"),
        ("(id, s) = (1, 'a')", "struct(id AS col1, s AS col2) = struct(1, 'a')"),
    ],
)
def test_a_spelling_has_the_meaning_of_the_plain_one(text, plain):
    assert parse_expression(text, SCHEMA) == parse_expression(plain, SCHEMA)


def _columns(query):
    return dict(bind_query(query, lambda _name, _version: SCHEMA).columns)


def test_a_column_uses_the_name_of_one_before_it_unless_the_table_has_that_name():
    columns = _columns("SELECT id + 1 AS n, n * 2 AS twice, day AS s, s AS text FROM t")
    assert columns["twice"].type == INTEGER
    assert columns["text"].type == STRING


@pytest.mark.parametrize(
    "query",
    [
        "SELECT rand() AS r, r + 1 AS more FROM t",
        "SELECT id AS n, d AS n, n + 1 AS which FROM t",
        "SELECT id AS n, max(n) AS most FROM t GROUP BY id",
        "SELECT n + 1 AS more, id AS n FROM t",
        "SELECT row_number() OVER (ORDER BY id) AS n, n + 1 AS more FROM t",
    ],
)
def test_an_ambiguous_name_is_refused(query):
    with pytest.raises(ExpressionError, match=r"no column|ambiguous"):
        _columns(query)


@pytest.mark.parametrize(
    "frame",
    [
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        "ROWS 2 PRECEDING",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 3 FOLLOWING",
        "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    ],
)
def test_a_window_accepts_a_frame(frame):
    assert _columns(f"SELECT sum(id) OVER (ORDER BY id {frame}) AS n FROM t")


@pytest.mark.parametrize(
    "frame",
    [
        "ROWS BETWEEN CURRENT ROW AND 1 PRECEDING",
        "ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING",
        "ROWS BETWEEN -1 PRECEDING AND CURRENT ROW",
        "ROWS BETWEEN id PRECEDING AND CURRENT ROW",
        "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
        "ROWS",
    ],
)
def test_an_invalid_frame_is_refused(frame):
    with pytest.raises(ExpressionError):
        _columns(f"SELECT sum(id) OVER (ORDER BY id {frame}) AS n FROM t")
