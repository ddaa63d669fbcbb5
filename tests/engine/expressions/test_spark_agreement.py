"""Arrow's answer to a condition is Spark's answer, or none."""

from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import CannotEvaluateError, ExpressionError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.functions import COMPARISONS, FUNCTIONS, OPERATORS, Function, find
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.render import to_sql
from engine.schema.types import DOUBLE, INTEGER, STRING, ArrayType, MapType, StructField, StructType
from engine.spark.columns import drop_nullability, from_spark_schema, to_column, to_spark_type
from tests.engine.expressions.generated import SCHEMA, conditions, rows
from tests.shares import Run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def _answers(frame: DataFrame, texts: list[str]) -> list[list[bool | None] | None]:
    """Return Spark's value of each condition for each row; None if Spark fails on the condition."""
    try:
        answers = frame.selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(texts))).toArrow()
    except PySparkException:
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return _answers(frame, texts[:half]) + _answers(frame, texts[half:])
    return [answers.column(n).to_pylist() for n in range(len(texts))]


@settings(
    max_examples=12 if Run.is_hunt else 4,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(table=rows(40), texts=st.lists(conditions(), min_size=60, max_size=60, unique=True))
def test_arrow_agrees_with_spark(spark: SparkSession, table: pa.Table, texts: list[str]) -> None:
    answered: list[tuple[str, str, list[bool | None]]] = []
    for text in texts:
        try:
            tree = parse_condition(text, SCHEMA, now_ms=0)
            answered.append((text, to_sql(tree), evaluate_arrow(tree, table).to_pylist()))
        except (CannotEvaluateError, ExpressionError):
            continue
    assume(answered)
    frame = spark.createDataFrame(table)
    answers = _answers(frame, [sql for _, sql, _ in answered])
    wrong = [
        (text, list(zip(mine, theirs or [], strict=False)))
        for (text, _, mine), theirs in zip(answered, answers, strict=True)
        if mine != theirs
    ]
    assert not wrong, f"{len(wrong)} of {len(answered)}: {wrong[:5]}"


_COLLECTIONS = (
    StructField("arr", ArrayType(INTEGER)),
    StructField("m", MapType(STRING, DOUBLE)),
    StructField("arrs", ArrayType(StructType((StructField("x", INTEGER),)))),
    StructField("st2", StructType((StructField("x", INTEGER, False), StructField("y", STRING)))),
)
_SAMPLES = {
    "any": "i",
    "string": "s",
    "text": "s",
    "number": "d",
    "integer": "i",
    "long": "l",
    "float": "d",
    "long or float": "d",
    "boolean": "ok",
    "time": "day",
    "timestamp": "ts",
    "time or string": "day",
    "array": "arr",
    "map": "m",
    "array or map": "arr",
    "struct, array or map": "st",
}
_SPECIAL = {
    "case": ["CASE WHEN ok THEN i ELSE l END", "CASE WHEN ok THEN n WHEN i = 1 THEN 1.5 END"],
    "get": ["arr[0]", "m['k']"],
    "in": ["i IN (1, 2L, NULL)"],
    "and": ["ok AND ok"],
    "or": ["ok OR ok"],
    "not": ["NOT ok"],
    "negative": ["-(i)", "-(n)", "-(b)"],
    "like": ["s LIKE 'a'", "s LIKE 'a!%' ESCAPE '!'"],
    "ilike": ["s ILIKE 'a'"],
    "div": ["i DIV 2", "l DIV b"],
    "isnull": ["i IS NULL"],
    "isnotnull": ["i IS NOT NULL"],
    "sha2": ["sha2(s, 256)"],
    "trunc": ["trunc(day, 'MM')"],
    "date_trunc": ["date_trunc('DAY', ts)", "date_trunc('DAY', day)"],
    "lpad": ["lpad(s, 5, 'x')", "lpad(s, 5)"],
    "rpad": ["rpad(s, 5, 'x')"],
    "array_contains": ["array_contains(arr, 1)"],
    "map_contains_key": ["map_contains_key(m, 'k')"],
    "element_at": ["element_at(arr, 1)", "element_at(m, 'k')"],
    "if": ["if(ok, i, l)", "if(ok, n, 1)"],
    "coalesce": ["coalesce(i, l)", "coalesce(n, i)", "coalesce(f, i)", "coalesce(day, ts)"],
    "greatest": ["greatest(i, d)", "greatest(b, 5L)"],
    "round": ["round(d)", "round(i)", "round(l, -1)", "round(f, 2)"],
    "abs": ["abs(i)", "abs(n)", "abs(f)", "abs(b)"],
    "ceil": ["ceil(d)", "ceil(i)"],
    "floor": ["floor(d)", "floor(l)"],
    "nullif": ["nullif(i, 5L)"],
    "+": [
        "b + b",
        "i + l",
        "n + n",
        "n + i",
        "n + 1",
        "f + i",
        "f + f",
        "day + 1",
        "ts + INTERVAL 1 DAY",
        "day + INTERVAL 1 MONTH",
        "day + INTERVAL 1 DAY",
    ],
    "-": ["b - i", "n - n", "n - d", "day - 1", "wall - INTERVAL '5' HOURS"],
    "*": ["b * b", "n * n", "n * 2", "i * 1.5", "CAST(n AS DECIMAL(38,10)) * n"],
    "/": ["i / i", "n / n", "n / 3", "f / f", "CAST(n AS DECIMAL(38,10)) / n"],
    "%": ["i % l", "n % 3", "d % 2"],
    "pmod": ["pmod(i, 3)", "pmod(n, 3)"],
    "=": ["i = i", "st = st2", "arr = array(1L)"],
    "field": ["arrs[0].x", "struct(i, s AS t, 5).t", "from_json(s, 'a INT, b STRING').b"],
    "lambda": ["transform(arr, (x, n) -> x + n)", "filter(arrs, e -> e.x > i)"],
    "regexp_like": ["regexp_like(s, '^a+b')", "s RLIKE 'a|b'"],
    "regexp_replace": ["regexp_replace(s, '([a-c])x', '$1')"],
    "regexp_extract": ["regexp_extract(s, '([a-z]+)', 1)", "regexp_extract(s, '([a-z]+)')"],
    "regexp_substr": ["regexp_substr(s, 'a')"],
    "regexp_count": ["regexp_count(s, 'a')"],
    "array": ["array(1, 2L)", "array(st, st2)"],
    "map": ["map('a', 1, 'b', 2.5)"],
    "named_struct": ["named_struct('a', i, 'b', n)", "struct(i, st.x, l + 1)"],
    "map_from_arrays": ["map_from_arrays(array('a'), array(1))"],
    "array_position": ["array_position(arr, 1)"],
    "array_remove": ["array_remove(arr, 1)"],
    "sort_array": ["sort_array(arr)", "sort_array(arr, false)"],
    "slice": ["slice(arr, 1, 2)"],
    "flatten": ["flatten(array(arr, arr))"],
    "array_join": ["array_join(array(s, t), ',')"],
    "to_json": ["to_json(st)", "to_json(m)", "to_json(arrs)"],
    "from_json": ["from_json(s, 'a INT, b ARRAY<STRING>')", "from_json(s, 'MAP<STRING, INT>')"],
    "transform": ["transform(arr, x -> x + l)", "transform(arrs, e -> e.x)"],
    "filter": ["filter(arr, x -> x > 1)"],
    "exists": ["exists(arr, x -> x = i)"],
    "forall": ["forall(arr, x -> x = i)"],
    "aggregate": [
        "aggregate(arr, 0, (a, x) -> a + x)",
        "aggregate(arr, 0, (a, x) -> a + x, a -> a * 2.5)",
    ],
    "zip_with": ["zip_with(arr, arr, (x, y) -> x * y)"],
    "map_filter": ["map_filter(m, (k, v) -> v > 1)"],
    "transform_keys": ["transform_keys(m, (k, v) -> length(k))"],
    "transform_values": ["transform_values(m, (k, v) -> length(k))"],
    "cast": [
        "CAST(NULL AS STRUCT<a: INT, b: ARRAY<DECIMAL(10,2)>>)",
        "CAST(st AS STRUCT<a: BIGINT, b: STRING>)",
        "CAST(arr AS ARRAY<STRING>)",
    ],
    "coalesce of structs": ["coalesce(st, st2)", "CASE WHEN ok THEN st2 ELSE st END"],
    "intervals": [
        "day + INTERVAL 5 HOURS",
        "day - INTERVAL 1 YEAR 2 MONTHS",
        "INTERVAL 1 DAY + day",
        "ts + INTERVAL 1 DAY 2 HOURS",
    ],
}


def _calls(function: Function) -> list[str]:
    if function.name in _SPECIAL:
        return _SPECIAL[function.name]
    arguments = [_SAMPLES[family] for family in function.parameters]
    if function.name in COMPARISONS:
        return [f"{arguments[0]} {function.name} {arguments[1]}"]
    return [f"{function.name}({', '.join(arguments)})"]


def test_spark_knows_every_function_by_the_type_we_say(spark: SparkSession) -> None:
    schema = StructType((*SCHEMA.fields, *_COLLECTIONS))
    frame = spark.createDataFrame([], to_spark_type(schema))
    wrong = []
    called = [_calls(function) for function in (*OPERATORS.values(), *FUNCTIONS.values())]
    beside = [texts for name, texts in _SPECIAL.items() if find(name) is None]
    for text in chain.from_iterable((*called, *beside)):
        tree = parse_expression(text, schema)
        assert parse_expression(to_sql(tree), schema) == tree
        try:
            given = from_spark_schema(frame.select(to_column(tree).alias("x")).schema).get("x")
            theirs = given.type if given is not None else None
        except PySparkException as error:
            theirs = str(error)[:200]
        if theirs != drop_nullability(tree.type):
            wrong.append((text, theirs, tree.type))
    assert wrong == [], "\n".join(map(str, wrong))
