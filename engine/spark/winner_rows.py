"""A winning commit's rows, tested by Spark if Arrow cannot: the last resort of conflict resolution.

They are few, and come from the driver.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import CannotEvaluateError
from engine.expressions.tree import Expression
from engine.spark.columns import column, is_true, to_column

_PLACE = "__lake_place"


def condition_tester(spark: SparkSession) -> Callable[[Expression, pa.Table], pa.Array]:
    """Return a tester: the rows of a table that satisfy a condition over its columns."""

    def test(condition: Expression, rows: pa.Table) -> pa.Array:
        return _mask(
            lambda: _create_numbered_frame(spark, rows).filter(is_true(condition)), rows.num_rows
        )

    return test


def join_matcher(
    spark: SparkSession, source: DataFrame, on: Expression, reached: Sequence[Expression] = ()
) -> Callable[[pa.Table], pa.Array]:
    """Return a matcher of a MERGE's target rows that join a source row or satisfy `reached`."""

    def match(rows: pa.Table) -> pa.Array:
        def join_source() -> DataFrame:
            return target().join(source.alias("source"), to_column(on), "left_semi")

        def target() -> DataFrame:
            return _create_numbered_frame(spark, rows).alias("target")

        mask = _mask(join_source, rows.num_rows)
        for condition in reached:
            mask = pc.or_(mask, _mask(_filter_lazily(target, condition), rows.num_rows))
        return mask

    return match


def _filter_lazily(rows: Callable[[], DataFrame], condition: Expression) -> Callable[[], DataFrame]:
    return lambda: rows().filter(is_true(condition))


def _create_numbered_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    places = pa.array(np.arange(rows.num_rows), pa.int64())
    return spark.createDataFrame(rows.append_column(_PLACE, places))


def _mask(rows: Callable[[], DataFrame], count: int) -> pa.Array:
    """Return the mask of the selected rows.

    Raises:
        CannotEvaluateError: Spark cannot evaluate it either: the two sides conflict.
    """
    mask = np.zeros(count, dtype=bool)
    try:
        places = rows().select(column(_PLACE)).toArrow().column(0).to_numpy()
    except (PySparkException, Py4JError) as error:
        msg = f"Spark could not test the winning commit's rows: {type(error).__name__}."
        raise CannotEvaluateError(msg) from error
    mask[places] = True
    return pa.array(mask)
