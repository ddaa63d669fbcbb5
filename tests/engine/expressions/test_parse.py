"""The parser's results for common expressions."""

import datetime as dt
from decimal import Decimal

import pytest

from engine.errors import ExpressionError, UnknownColumnError
from engine.expressions.lexer import tokenize
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.render import to_sql
from engine.expressions.scope import Relation, Scope
from engine.expressions.tree import Column, Interval, Literal
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("Id", LONG),
        StructField("name", STRING),
        StructField("date", DATE),
        StructField("ts", TIMESTAMP),
        StructField("ok", BOOLEAN),
        StructField("price", DecimalType(10, 2)),
        StructField("st", StructType((StructField("X", INTEGER),))),
        StructField("arr", ArrayType(INTEGER)),
        StructField("m", MapType(STRING, DOUBLE)),
        StructField("current_date", DATE),
    )
)

_RENDERED = [
    ("id = 1", "`Id` = 1"),
    ("ID == 1", "`Id` = 1"),
    ("id != 1", "`Id` <> 1"),
    ("t.id = 1 and not ok", None),
    ("id=1 or ok and not ok", "(`Id` = 1) OR (`ok` AND (NOT `ok`))"),
    ("id = 1 AND (ok AND ok)", "(`Id` = 1) AND `ok` AND `ok`"),
    ("1 + 2 * 3 - 4 = id", "((1 + (2 * 3)) - 4) = `Id`"),
    ("-id < -1", "(-(`Id`)) < (-1)"),
    ("id between 1 and 2 and ok", "(`Id` >= 1) AND (`Id` <= 2) AND `ok`"),
    ("name not in ('a', 'b')", "NOT (`name` IN ('a', 'b'))"),
    ("name like 'a%' escape '!'", "`name` LIKE 'a%' ESCAPE '!'"),
    ("id is not null", "`Id` IS NOT NULL"),
    ("ok is true", "`ok` <=> TRUE"),
    ("id is distinct from 1", "NOT (`Id` <=> 1)"),
    ("st.x = 1", "`st`.`X` = 1"),
    ("arr[0] = 1 or m['k'] = 1", "((`arr`[0]) = 1) OR ((`m`['k']) = 1)"),
    ("id::string = '1'", "(CAST(`Id` AS STRING)) = '1'"),
    ("cast(price as decimal(5)) = 1", "(CAST(`price` AS DECIMAL(5,0))) = 1"),
    ("case id when 1 then ok else false end", "CASE WHEN `Id` = 1 THEN `ok` ELSE FALSE END"),
    ("mod(id, 2) = 1", "(`Id` % 2) = 1"),
    ("name || 'x' = 'ax'", "(concat(`name`, 'x')) = 'ax'"),
    ("date - 7 < date", "(date_sub(`date`, 7)) < `date`"),
    ("ifnull(name, '') = ''", "(coalesce(`name`, '')) = ''"),
    (
        "date >= current_date() - interval 2 weeks",
        "`date` >= (DATE '2026-11-02' - INTERVAL '14' DAY)",
    ),
    ("ts < now()", "`ts` < TIMESTAMP '2026-11-02 10:00:00.500000+00:00'"),
    ("CURRENT_TIMESTAMP > ts", "TIMESTAMP '2026-11-02 10:00:00.500000+00:00' > `ts`"),
    ("`current_date` = current_date", "`current_date` = DATE '2026-11-02'"),
    ("name = 'it''s \\'q\\' \\n'", "`name` = 'it\\u0027s \\u0027q\\u0027 \\u000a'"),
    ('name = "dou""ble"', "`name` = 'dou\\u0022ble'"),
]
NOW_MS = 1_793_613_600_500


@pytest.mark.parametrize(("text", "sql"), [row for row in _RENDERED if row[1]])
def test_text_becomes_canonical_sql(text, sql):
    assert to_sql(parse_condition(text, SCHEMA, now_ms=NOW_MS)) == sql


def test_a_word_may_begin_with_digits_unless_it_is_a_number():
    numbers = ["7", "7f", "7D", "7bd", "7L", "7s", "7Y", "7e1", "7E1F", "7.5", "7.5bd", ".5"]
    words = ["7f3a", "7e1a", "7e1L", "7e", "0x1F", "1_000", "00d3efb8", "9e12ff", "_7", "7LL"]
    for kind, texts in (("number", numbers), ("word", words)):
        for text in texts:
            assert [(token.kind, token.text) for token in tokenize(text)] == [(kind, text)]
    assert [token.kind for token in tokenize("t.7f3a")] == ["word", "symbol", "word"]


_LITERALS = [
    ("1", Literal(1, INTEGER)),
    ("-2147483648", Literal(-(2**31), INTEGER)),
    ("2147483648", Literal(2**31, LONG)),
    ("9223372036854775808", Literal(Decimal(2**63), DecimalType(19, 0))),
    ("1L", Literal(1, LONG)),
    ("1S", Literal(1, SHORT)),
    ("-128Y", Literal(-128, BYTE)),
    ("1.50", Literal(Decimal("1.50"), DecimalType(3, 2))),
    ("1e3", Literal(1000.0, DOUBLE)),
    ("1.5D", Literal(1.5, DOUBLE)),
    ("1.5f", Literal(1.5, FLOAT)),
    ("0.1F", Literal(0.10000000149011612, FLOAT)),
    ("7BD", Literal(Decimal(7), DecimalType(1, 0))),
    ("X'0aF'", Literal(b"\x00\xaf", BINARY)),
    ("DATE '2026-1-2'", Literal(dt.date(2026, 1, 2), DATE)),
    (
        "TIMESTAMP '2026-01-02 03:04:05+01:00'",
        Literal(dt.datetime(2026, 1, 2, 2, 4, 5, tzinfo=dt.UTC), TIMESTAMP),
    ),
    (
        "TIMESTAMP '2026-01-02T03:04:00Z'",
        Literal(dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), TIMESTAMP),
    ),
    (
        "INTERVAL '1.5' HOURS",
        Literal(
            Interval(5_400_000_000, "MICROSECOND"), parse_expression("INTERVAL 1 DAY", SCHEMA).type
        ),
    ),
]


@pytest.mark.parametrize(("text", "literal"), _LITERALS, ids=[text for text, _ in _LITERALS])
def test_literals_have_sparks_types(text, literal):
    assert parse_expression(text, SCHEMA) == literal


def test_an_unknown_column_names_its_place_and_its_neighbor():
    with pytest.raises(UnknownColumnError) as caught:
        parse_condition("ok AND nmae = 'a'", SCHEMA)
    assert caught.value.position == 7
    assert "name" in caught.value.remedy


def test_columns_of_two_tables_are_distinguished_by_table():
    scope = Scope(
        (
            Relation(SCHEMA, "target", ("t",)),
            Relation(
                StructType((StructField("id", LONG), StructField("v", LONG))), "source", ("s",)
            ),
        )
    )
    tree = parse_condition("t.id = s.id AND v > 1 AND name = 'a'", scope)
    assert to_sql(tree) == (
        "(`target`.`Id` = `source`.`id`) AND (`source`.`v` > 1) AND (`target`.`name` = 'a')"
    )
    assert parse_condition(to_sql(tree), scope) == tree
    with pytest.raises(ExpressionError, match="ambiguous"):
        parse_condition("id = 1", scope)


def test_a_struct_column_may_be_called_like_the_table():
    scope = Scope((Relation(SCHEMA, "", ("st",)),))
    assert parse_expression("st.x", scope) == Column(("st", "X"), INTEGER)
    assert parse_expression("st.id", scope) == Column(("Id",), LONG)


def test_a_name_with_dots_is_one_column_in_backticks():
    schema = StructType(
        (StructField("a.b", LONG), StructField("a", StructType((StructField("b", STRING),))))
    )
    assert parse_expression("`a.b`", schema).type == LONG
    assert parse_expression("a.b", schema).type == STRING


def test_now_is_one_moment_throughout_a_condition():
    first = parse_condition("ts = now() AND now() = current_timestamp()", SCHEMA)
    moments = {argument.value for argument in first.arguments[1].arguments}
    assert len(moments) == 1
