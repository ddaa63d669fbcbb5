"""Every function, operator and cast: Arrow's result for an edge value equals Spark's.

Where Arrow gives a value for a row, Spark gives the same; where Spark fails, Arrow gives none. Calls
that Arrow never evaluates are left to Spark, and docs/sql.md says so.
"""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.errors import CannotEvaluateError, ExpressionError
from engine.expressions.arrow_cast import arrow_type
from engine.expressions.arrow_functions import FUNCTIONS_OF_ARROW
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.functions import FUNCTIONS, OPERATORS, Function, gives
from engine.expressions.parse import parse_expression
from engine.expressions.render import to_sql
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.schema.types import STRING
from tests.engine.expressions.edge_calls import EDGES, SCHEMA, calls_of, rows_of
from tests.shares import one_in

ARROW = pa.schema([(name, arrow_type(kind)) for name, (kind, _) in EDGES.items()])
CAST = Function("cast", ("any",), gives(STRING))
COMPARED = {**OPERATORS, **FUNCTIONS, "cast": CAST}
ONLY_SPARK = sorted({*COMPARED} - {*FUNCTIONS_OF_ARROW, "cast"})
BY_ARROW = sorted({*COMPARED} - {*ONLY_SPARK})


@pytest.mark.parametrize("name", ONLY_SPARK)
def test_arrow_gives_no_value_for_functions_that_it_lacks(name):
    trees = _trees(name)
    assert trees
    for tree in trees:
        with pytest.raises(CannotEvaluateError):
            evaluate_arrow(tree, _rows(tree))


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", one_in(12, BY_ARROW))
def test_arrow_and_spark_agree_on_each_edge_value(name: str, spark: SparkSession) -> None:
    compared, wrong = 0, []
    for tree in _trees(name):
        rows = _rows(tree)
        mine = [_evaluate_in_arrow(tree, rows.slice(at, 1)) for at in range(rows.num_rows)]
        known = [at for at, value in enumerate(mine) if value is not _UNKNOWN]
        if not known:
            continue
        together = _together(tree, rows.take(known))
        text, kept = to_sql(tree), rows.take(known)
        theirs = _evaluate_in_spark(spark, text, kept)
        for at, value in zip(known, theirs, strict=True):
            if repr(mine[at]) != repr(value):
                wrong.append((text, rows.slice(at, 1).to_pylist()[0], mine[at], value))
        if together is not None and list(map(repr, together)) != [repr(mine[at]) for at in known]:
            wrong.append((text, "all rows at once", together, [mine[at] for at in known]))
        compared += len(known)
    assert compared, f"Arrow evaluates no call of {name}: add one to edge_calls"
    assert wrong == [], f"{len(wrong)} of {compared}:\n" + "\n".join(map(str, wrong[:40]))


class _Unknown:
    pass


_UNKNOWN, _FAILED = _Unknown(), "Spark fails"


def _trees(name: str) -> list[Expression]:
    trees = []
    for text in calls_of(COMPARED[name]):
        try:
            trees.append(parse_expression(text, SCHEMA, now_ms=0))
        except ExpressionError:  # incompatible types
            continue
    return trees


def _rows(tree: Expression) -> pa.Table:
    names = sorted({path[0] for path in columns_of(tree)})
    return rows_of(names, ARROW) if names else pa.table({"i": pa.array([1], pa.int32())})


def _evaluate_in_arrow(tree: Expression, row: pa.Table) -> Any:
    try:
        return _list_values(evaluate_arrow(tree, row))[0]
    except CannotEvaluateError:
        return _UNKNOWN


def _together(tree: Expression, rows: pa.Table) -> list[Any] | None:
    try:
        return _list_values(evaluate_arrow(tree, rows))
    except CannotEvaluateError:
        return None


def _list_values(values: pa.ChunkedArray) -> list[Any]:
    """Return Python values; dates and times as numbers, because they may exceed Python's range."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    listed: list[Any] = values.to_pylist()
    return listed


def _evaluate_in_spark(spark: SparkSession, text: str, rows: pa.Table) -> list[Any]:
    """Return Spark's values; find failing rows by bisection."""
    try:
        frame = spark.createDataFrame(rows).coalesce(1).selectExpr(f"{text} AS value")
        values = _list_values(frame.toArrow().column(0))
    except PySparkException:
        if rows.num_rows == 1:
            return [_FAILED]
        half = rows.num_rows // 2
        return [
            *_evaluate_in_spark(spark, text, rows.slice(0, half)),
            *_evaluate_in_spark(spark, text, rows.slice(half)),
        ]
    return values
