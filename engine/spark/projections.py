"""Columns of a scan, made once for each form of table: to make one takes a dozen calls of the JVM."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from engine.spark.jvm import keep_in_jvm, scala_seq
from engine.spark.session import is_remote

_LONGEST = 100_000
"""Columns of a longer form are made each time."""


def select_columns(
    frame: DataFrame, form: Hashable, columns: Callable[[], Sequence[Column]]
) -> DataFrame:
    """Select the columns of `columns` from the frame; frames of an equal `form` share them.

    The columns belong to no frame: another frame resolves them by name.
    """
    session = frame.sparkSession
    if is_remote(session) or len(repr(form)) > _LONGEST:
        return frame.select(*columns())
    inside: Any = frame

    def make() -> Any:  # noqa: ANN401 - one of Scala's lists
        made: list[Any] = list(columns())
        return scala_seq([one._jc for one in made], session)

    listed = keep_in_jvm(session.sparkContext, ("columns", form), make)
    return DataFrame(inside._jdf.select(listed), session)
