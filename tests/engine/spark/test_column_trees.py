"""Columns and text of programs as trees: those that have a tree, and those that stay in Spark."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from engine.expressions.parse import parse_expression
from engine.expressions.render import to_sql
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import spark_expressions
from engine.expressions.tree import Call, Literal, SparkExpression
from engine.expressions.tree import Column as ColumnOfRow
from engine.schema.types import DATE, INTEGER, LONG, STRING, TIMESTAMP, StructField, StructType
from engine.spark.column_trees import CallerFrames, GivenColumn

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("day", DATE),
        StructField("moment", TIMESTAMP),
        StructField("place", StructType((StructField("city", STRING),))),
        StructField("odd name", INTEGER),
    )
)
ONE = Scope((Relation(SCHEMA, "", ("t",)),))
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def tree(spark):
    frames = CallerFrames(spark)

    def build_tree(given, scope=ONE):
        return GivenColumn(given, frames).tree(scope, now_ms=NOW_MS)

    return build_tree


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (lambda: F.col("id") == 5, "id = 5"),
        (lambda: F.col("t.id") == F.lit(2**40), f"id = {2**40}"),
        (lambda: F.col("id").isin(1, 2, 3), "id IN (1, 2, 3)"),
        (lambda: F.col("id").between(1, 3), "id >= 1 AND id <= 3"),
        (
            lambda: (F.col("id") > 1) & (F.col("id") < 9) & F.col("name").isNull(),
            "id > 1 AND id < 9 AND name IS NULL",
        ),
        (
            lambda: (F.col("id") != 1) | ~F.col("name").isNotNull(),
            "NOT (id = 1) OR NOT (name IS NOT NULL)",
        ),
        (lambda: F.col("name").startswith("a"), "startswith(name, 'a')"),
        (lambda: F.upper("name") == F.lit("A"), "upper(name) = 'A'"),
        (lambda: F.col("name").like("a%"), "name LIKE 'a%'"),
        (lambda: F.col("day") == date(2024, 1, 31), "day = DATE '2024-01-31'"),
        (
            lambda: F.col("moment") < datetime(2024, 1, 31, 10, tzinfo=UTC),
            "moment < TIMESTAMP '2024-01-31 10:00:00+00:00'",
        ),
        (lambda: F.col("id") > F.lit(Decimal("1.10")), "id > 1.10"),
        (lambda: F.col("place.city") == "Rome", "place.city = 'Rome'"),
        (lambda: F.col("place").getField("city") == "Rome", "`place`.city = 'Rome'"),
        (lambda: F.col("`odd name`") * 2 + 1 == 5, "`odd name` * 2 + 1 = 5"),
        (
            lambda: F.when(F.col("id") > 1, "x").otherwise(F.lit(None)),
            "CASE WHEN id > 1 THEN 'x' ELSE NULL END",
        ),
        (lambda: F.col("id").cast("string") == "5", "CAST(id AS STRING) = '5'"),
        (lambda: F.col("name").try_cast("int").isNull(), "TRY_CAST(name AS INT) IS NULL"),
        (
            lambda: F.expr("id = 1 and name like 'a%' and id in (1, 2)"),
            "id = 1 AND name LIKE 'a%' AND id IN (1, 2)",
        ),
        (lambda: F.coalesce("name", F.lit("x")).eqNullSafe("x"), "coalesce(name, 'x') <=> 'x'"),
        (lambda: -F.col("id") == 1, "-id = 1"),
        (lambda: F.col("id").alias("x") == 1, "(id) = 1"),
        (lambda: F.to_date("moment") == F.current_date(), "to_date(moment) = DATE '2023-11-14'"),
    ],
)
def test_a_column_has_the_tree_of_the_text_that_says_the_same(tree, column, text):
    assert to_sql(tree(column())) == to_sql(parse_expression(text, ONE))


def test_text_keeps_its_meaning_in_spark_where_the_engine_cannot_parse_it(tree):
    whole = tree("id > 1 and luhn_check(name) and day = date '2024-01-31'")
    own = spark_expressions(whole)
    assert [expression.text for expression in own] == ["luhn_check(name)"]
    assert isinstance(whole, Call)
    assert whole.function == "and"
    assert to_sql(whole.arguments[2]) == "`day` = DATE '2024-01-31'"


def test_an_expression_that_reads_nothing_is_evaluated_at_once(tree):
    whole = tree(F.col("day") > F.to_date(F.lit("31/01/2024"), "dd/MM/yyyy"))
    assert whole == Call(
        ">", (ColumnOfRow(("day",), DATE), Literal(date(2024, 1, 31), DATE)), whole.type
    )
    assert tree("day > date_from_unix_date(19000)").arguments[1] == Literal(date(2022, 1, 8), DATE)


def test_a_function_of_python_is_sparks_own(tree, spark):
    shout = F.udf(lambda text: text.upper(), "string")
    whole = tree(shout("name") == "A")
    assert isinstance(whole, Call)
    own = whole.arguments[0]
    assert isinstance(own, SparkExpression)
    assert (own.type, own.sides, own.is_deterministic) == (STRING, frozenset({""}), True)
    assert not tree(shout.asNondeterministic()("name")).is_deterministic
    assert not tree(F.rand() > 0.5).is_deterministic


def test_the_sides_of_a_merge_are_distinguished_by_the_columns_they_name(spark):
    source = spark.createDataFrame([(1, "x")], "id bigint, other string").alias("s")
    target = spark.createDataFrame([], "id bigint, name string")
    scope = Scope(
        (
            Relation(SCHEMA, "target", ("t",)),
            Relation(
                StructType((StructField("id", LONG), StructField("other", STRING))),
                "source",
                ("s",),
            ),
        )
    )
    frames = CallerFrames(spark, source, (target,))

    def sides(given):
        own = spark_expressions(GivenColumn(given, frames).tree(scope))
        return [set(expression.sides) for expression in own]

    twice = F.udf(lambda *texts: "".join(map(str, texts)), "string")
    assert sides(twice("s.id")) == [{"source"}]
    assert sides(twice("other")) == [{"source"}]
    assert sides(twice("name")) == [{"target"}]
    assert sides(twice("t.id", "s.id")) == [{"target", "source"}]
    assert sides(F.col("t.id") == twice("s.id").cast("long")) == [{"source"}]
    assert sides(twice(source["id"])) == [{"source"}]
    assert sides(target["id"] == source["id"]) == []
    with pytest.raises(AnalysisException, match="ambiguous"):
        sides(twice("id"))


def test_a_long_chain_of_conditions_has_a_tree(tree):
    chain = F.col("id") == 0
    for number in range(1, 250):
        chain = chain | (F.col("id") == number)
    whole = tree(chain)
    assert isinstance(whole, Call)
    assert len(whole.arguments) == 250


@pytest.fixture(scope="module")
def elsewhere(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "false")
    return session


def test_settings_that_a_session_changes_stay_in_the_tree(elsewhere):
    frames = CallerFrames(elsewhere, has_engine_terms=False)

    def tree(given):
        return GivenColumn(given, frames).tree(ONE, now_ms=NOW_MS)

    assert not spark_expressions(tree("id = 5 and name is null and lower(name) = 'a'"))
    assert spark_expressions(tree("moment > '2024-01-31 10:00:00'")) == ()
    compared = tree("moment > '2024-01-31 10:00:00'").arguments[1]
    assert compared == Literal(datetime(2024, 1, 31, 15, tzinfo=UTC), TIMESTAMP)
    assert len(spark_expressions(tree("name = 5"))) == 1
    assert len(spark_expressions(tree("hour(moment) = 5"))) == 1
