"""Rows computed once and kept in Spark until the run ends."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import DataFrame

from engine.spark.session import is_remote

_KEPT: ContextVar[list[DataFrame] | None] = ContextVar("_KEPT", default=None)


def materialise_rows(frame: DataFrame) -> DataFrame:
    """Compute the rows now, once.

    `rows_given_up` frees them. Outside of it, Spark frees them some time after the last reference.
    """
    rows = frame.localCheckpoint(eager=True)
    kept = _KEPT.get()
    if kept is not None:
        kept.append(rows)
    return rows


@contextmanager
def rows_given_up() -> Iterator[None]:
    """Free the rows of every `materialise_rows` inside: memory and disk of the executors."""
    kept: list[DataFrame] = []
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for rows in kept:
            _free(rows)


def _free(rows: DataFrame) -> None:
    if is_remote(rows.sparkSession):
        return  # its server frees them with the frame
    inside: Any = rows
    with suppress(Py4JError, OSError):  # Spark may be gone by now
        inside._jdf.queryExecution().logical().rdd().unpersist(False)
