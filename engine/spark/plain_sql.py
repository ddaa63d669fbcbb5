"""The engine's own statements, run by Spark itself in a session with a routed `spark.sql`.

`engine.delta.enable` does not route statements inside `bypass_routing`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.sql import DataFrame, SparkSession

_is_plain: ContextVar[bool] = ContextVar("lake_plain_sql", default=False)


@contextmanager
def bypass_routing() -> Iterator[None]:
    """Send this thread's statements directly to Spark, in any session."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def is_plain() -> bool:
    """Whether this thread is inside `bypass_routing`."""
    return _is_plain.get()


def plain_sql(session: SparkSession, statement: str) -> DataFrame:
    """Run a statement in Spark itself."""
    with bypass_routing():
        return session.sql(statement)
