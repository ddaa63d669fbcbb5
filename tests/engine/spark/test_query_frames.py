"""A query through the engine's trees returns the same as Spark's own SQL over the same rows."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType as SparkStruct

from engine.errors import EngineError, ExpressionError
from engine.expressions.queries.binder import bind_query
from engine.spark.columns import from_spark_schema
from engine.spark.scan.query_frames import QueryFrames
from tests.engine.spark.queries import DATA, NOT_IN_SPARK, QUERIES, REFUSED
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Compiling each of so many plans for so few rows takes longest."""


@pytest.fixture(scope="module")
def views(spark: SparkSession):
    before = {key: spark.conf.get(key, None) for key in QUICK}
    for key, value in QUICK.items():
        spark.conf.set(key, value)
    frames = {
        name: spark.createDataFrame(spark.createDataFrame(rows, schema).coalesce(1).toArrow())
        for name, (schema, rows) in DATA.items()
    }
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    yield frames
    for name in frames:
        spark.catalog.dropTempView(name)
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def _ours(spark, views, text):
    def tables(name, version):
        assert version is None
        return from_spark_schema(views[name].schema)

    query = bind_query(text, tables, now_ms=0)

    def open_scan(scan, condition, nested):
        assert isinstance(nested, bool)
        return views[scan.table]

    return query, QueryFrames(spark, open_scan).frame(query)


def _field(field):
    return from_spark_schema(SparkStruct([field])).fields[0].type


@pytest.mark.parametrize("texts", one_in(2, [[*QUERIES[::2], *NOT_IN_SPARK], QUERIES[1::2]]))
def test_queries_return_the_same_as_sparks_sql(spark, views, texts):
    differences = []

    def answers(text):
        theirs = spark.sql(NOT_IN_SPARK.get(text, text))
        try:
            query, frame = _ours(spark, views, text)
            return text, query, theirs, frame.collect(), theirs.collect()
        except (EngineError, PySparkException, Py4JError) as error:
            differences.append((text, str(error)[:500], theirs.schema))
            return None

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(answers, texts))
    for text, query, theirs, mine, other in filter(None, results):
        if "ORDER BY" not in text.rpartition(")")[2]:
            mine, other = sorted(mine, key=repr), sorted(other, key=repr)
        types = [column.type for _, column in query.columns]
        expected = [_field(field) for field in theirs.schema]  # whose names may repeat
        if [tuple(row) for row in mine] != [tuple(row) for row in other]:
            differences.append((text, mine, other))
        if types != expected:
            differences.append((text, types, expected))
        named = [n for n in zip(query.names, theirs.columns, strict=True) if "(" not in n[1]]
        if " " not in text.partition("FROM")[0].partition("SELECT ")[2]:
            assert all(one.lower() == other.lower() for one, other in named), text
    assert differences == []


@pytest.mark.parametrize("text", REFUSED)
def test_names_that_subqueries_may_not_use_are_refused(views, text):
    def tables(name, version):
        return from_spark_schema(views[name].schema)

    with pytest.raises(ExpressionError, match=REFUSED[text]) as refused:
        bind_query(text, tables, now_ms=0)
    assert refused.value.position == text.index("(") + 1


def test_a_subquery_that_gives_several_values_is_an_error(spark, views):
    _, frame = _ours(spark, views, "SELECT id FROM people WHERE id = (SELECT person FROM orders)")
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        frame.collect()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM people WHERE (id IN (SELECT person FROM orders)) IS NULL",
        "SELECT id IN (SELECT person FROM orders) AS found FROM people",
        "SELECT id FROM people WHERE coalesce(id NOT IN (SELECT person FROM orders), TRUE)",
    ],
)
def test_in_is_used_only_where_null_is_false(spark, views, text):
    with pytest.raises(ExpressionError, match="AND, OR and NOT"):
        _ours(spark, views, text)
