"""The one SparkSession of a worker, shared by its threads: a job group and a pool for each job."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from pyspark.sql import SparkSession

from engine.spark.session import build_session


class _Held:
    session: SparkSession | None = None


def start() -> None:
    """Start Spark and run a first small job, so that nobody's job pays for the warm-up."""
    session = build_session("lakeui", master=settings.SPARK_MASTER)
    session.range(1).count()
    _Held.session = session


def stop() -> None:
    """End the JVM, if there is one."""
    if _Held.session is not None:
        _Held.session.stop()
        _Held.session = None


def current() -> SparkSession | None:
    """The session; None in a light worker."""
    return _Held.session


@contextmanager
def job_group(group: str, description: str) -> Iterator[SparkSession | None]:
    """The session, with everything this thread runs on it in one group that can be cancelled."""
    session = _Held.session
    if session is None:
        yield None
        return
    context = session.sparkContext
    context.setJobGroup(group, description, interruptOnCancel=True)
    context.setLocalProperty("spark.scheduler.pool", group)
    try:
        yield session
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


def cancel_group(group: str) -> None:
    """Stop what a job runs on Spark."""
    if _Held.session is not None:
        _Held.session.sparkContext.cancelJobGroup(group)
