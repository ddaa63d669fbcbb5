"""Statements of the engine's own, which Spark does itself in a session where `spark.sql` is routed.

`engine.delta.enable` leaves alone what is asked inside `as_spark_does`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.sql import DataFrame, SparkSession

_is_plain: ContextVar[bool] = ContextVar("lake_plain_sql", default=False)


@contextmanager
def as_spark_does() -> Iterator[None]:
    """What this thread asks of any session inside goes to Spark untouched."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def is_plain() -> bool:
    """Whether this thread is inside `as_spark_does`."""
    return _is_plain.get()


def plain_sql(session: SparkSession, statement: str) -> DataFrame:
    """A statement as Spark does it."""
    with as_spark_does():
        return session.sql(statement)
