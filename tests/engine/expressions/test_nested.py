"""Structs, arrays, maps, lambdas and JSON: typed, rendered for Spark, or refused; not evaluated by Arrow."""

import pyarrow as pa
import pytest

from engine.errors import CannotEvaluateError, ExpressionError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.possible_values import ANY, UNKNOWN, possible
from engine.expressions.queries.binder import bind_query
from engine.expressions.render import to_sql
from engine.expressions.traits import columns_of
from engine.expressions.types import sql_name
from engine.schema.types import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("s", STRING),
        StructField("d", DATE),
        StructField("v0", LONG),
        StructField("arr", ArrayType(INTEGER)),
        StructField("m", MapType(STRING, LONG)),
        StructField("st", StructType((StructField("x", INTEGER), StructField("y", STRING)))),
        StructField(
            "st2", StructType((StructField("x", INTEGER, False), StructField("y", STRING)))
        ),
        StructField("arrs", ArrayType(StructType((StructField("x", INTEGER),)))),
    )
)


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("struct(id, s AS t, 1)", "STRUCT<`id`: BIGINT, `t`: STRING, `col3`: INT>", "named_struct('id', `id`, 't', `s`, 'col3', 1)"),
        ("arrs[0].x", "INT", "(`arrs`[0]).`x`"),
        ("CAST(NULL AS STRUCT<a: ARRAY<DECIMAL(10,2)>>)", "STRUCT<`a`: ARRAY<DECIMAL(10,2)>>", None),
        ("transform(arr, x -> x + v0)", "ARRAY<BIGINT>", "transform(`arr`, `v1` -> `v1` + `v0`)"),
        ("transform(arr, ID -> id)", "ARRAY<INT>", "transform(`arr`, `v1` -> `v1`)"),
        ("transform(arr, x -> aggregate(arr, x, (a, x) -> a + x))", "ARRAY<INT>", None),
        ("map_filter(m, (k, v) -> v > length(k))", "MAP<STRING, BIGINT>", None),
        ("from_json(s, 'a INT, b ARRAY<STRING>').b[0]", "STRING", None),
        ("coalesce(st, st2)", "STRUCT<`x`: INT, `y`: STRING>", None),
        ("INTERVAL 1 DAY 2 HOURS + d", "TIMESTAMP", None),
    ],
)  # fmt: skip
def test_a_value_has_its_type_and_says_the_same_to_spark(text, kind, shown):
    tree = parse_expression(text, SCHEMA)
    assert sql_name(tree.type) == kind
    assert parse_expression(to_sql(tree), SCHEMA) == tree
    assert shown in {None, to_sql(tree)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("m = m", "cannot combine"),
        ("struct(m) = struct(m)", "cannot combine"),
        ("array(1, s)[0] = array(1)", "cannot combine"),
        ("st = struct(1 AS a, 'b' AS b)", "cannot combine"),
        ("named_struct('a', 1, 'A', 2) = st", "twice"),
        ("CAST(st AS INT) = 1", "cannot be cast"),
        ("CAST(s AS VARCHAR(3)) = ''", "types of columns only"),
        ("transform(s, x -> x) = arr", "takes"),
        ("arr[0].x = 1", "no field x"),
        ("x -> 1", "no column x"),
        ("transform(arr, x -> transform(arr, y -> transform(arr, z -> z))) = arr", "deep"),
        ("aggregate(arr, '', (a, x) -> concat(a, a)) = ''", "size limit"),
        ("aggregate(arr, '', (a, x) -> replace(a, 'b', 'bb')) = ''", "size limit"),
        ("aggregate(arr, 0L, (a, x) -> x) = 0", "Cast the start"),
        ("from_json(s, s) = st", "not a string literal"),
        ("from_json(s, 'INT') = 1", "returns a struct"),
        ("explode(arr) = 1", "several rows for one"),
        ("array_contains(arr, NULL)", "cannot combine"),
        ("array_position(arr, NULL) = 1", "cannot combine"),
        ("arr = array()", "0 arguments"),
        ("d - d = 1", "datediff"),
        ("d + INTERVAL 1 MONTH 2 DAYS = d", "cannot combine"),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_a_position(text, why):
    with pytest.raises(ExpressionError, match=why) as caught:
        parse_condition(text, SCHEMA)
    assert caught.value.position is not None
    assert caught.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        "exists(arr, x -> x = id)",
        "st = st2",
        "arr = array(1, 2)",
        "struct(id).id = 1",
        "s RLIKE '^a'",
        "size(filter(arr, x -> FALSE)) = 0",
        "to_json(st) = '{}'",
        "aggregate(arr, 0, (a, x) -> a + x) > 5 AND FALSE",
    ],
)
def test_neither_statistics_nor_arrow_decide_conditions_that_only_spark_evaluates(text):
    tree = parse_condition(text, SCHEMA)
    first = tree.arguments[0] if text.endswith("AND FALSE") else tree
    assert possible(first, lambda _: UNKNOWN).true
    rows = pa.table({"id": [1], "s": ["a"]})
    with pytest.raises(CannotEvaluateError):
        evaluate_arrow(tree, rows)


def test_the_columns_of_a_lambda_are_read_and_its_names_are_not():
    tree = parse_condition("exists(arr, s -> s > id + v0)", SCHEMA)
    assert columns_of(tree) == {("arr",), ("id",), ("v0",)}
    assert possible(tree, lambda _: UNKNOWN) == ANY


def test_queries_accept_lambdas_without_aggregates():
    def tables(_name, _version):
        return SCHEMA

    text = "SELECT transform(arr, x -> x + id) AS a, st.x FROM t WHERE exists(arr, x -> x > 1)"
    assert bind_query(text, tables).names == ["a", "x"]
    with pytest.raises(ExpressionError, match="in a lambda"):
        bind_query("SELECT transform(arr, x -> sum(x)) FROM t", tables)
