"""What Arrow says of a condition is what Spark says, or Arrow says nothing."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine.errors import CannotEvaluateError, ExpressionError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_condition
from engine.expressions.render import to_sql
from tests.engine.expressions.generated import SCHEMA, conditions, rows

pyspark_errors = pytest.importorskip("pyspark.errors")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402 - Spark may be absent

from engine.spark.session import build_session  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = build_session("expressions", master="local[1]")
    yield session
    session.stop()


def _answers(frame: DataFrame, texts: list[str]) -> list[list[bool | None] | None]:
    """Spark's value of each condition for each row; None for a condition Spark fails on."""
    try:
        found = frame.selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(texts))).toArrow()
    except pyspark_errors.PySparkException:
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return _answers(frame, texts[:half]) + _answers(frame, texts[half:])
    return [found.column(n).to_pylist() for n in range(len(texts))]


@settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(table=rows(40), texts=st.lists(conditions(), min_size=60, max_size=60, unique=True))
def test_arrow_agrees_with_spark(spark: SparkSession, table: pa.Table, texts: list[str]) -> None:
    known: list[tuple[str, str, list[bool | None]]] = []
    for text in texts:
        try:
            tree = parse_condition(text, SCHEMA, now_ms=0)
            known.append((text, to_sql(tree), evaluate_arrow(tree, table).to_pylist()))
        except (CannotEvaluateError, ExpressionError):
            continue
    assume(known)
    frame = spark.createDataFrame(table)
    answers = _answers(frame, [sql for _, sql, _ in known])
    wrong = [
        (text, list(zip(mine, theirs or [], strict=False)))
        for (text, _, mine), theirs in zip(known, answers, strict=True)
        if mine != theirs
    ]
    assert not wrong, f"{len(wrong)} of {len(known)}: {wrong[:5]}"
