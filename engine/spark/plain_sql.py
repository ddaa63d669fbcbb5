"""Statements of the engine's own, which Spark does itself in a session where `spark.sql` is routed.

`engine.delta.enable` leaves alone what is asked inside `bypass_routing`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.sql import DataFrame, SparkSession

_is_plain: ContextVar[bool] = ContextVar("lake_plain_sql", default=False)


@contextmanager
def bypass_routing() -> Iterator[None]:
    """What this thread asks of any session inside goes to Spark untouched."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def is_plain() -> bool:
    """Whether this thread is inside `bypass_routing`."""
    return _is_plain.get()


def plain_sql(session: SparkSession, statement: str) -> DataFrame:
    """A statement as Spark does it."""
    with bypass_routing():
        return session.sql(statement)
