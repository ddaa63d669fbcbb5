"""The one SparkSession of a worker, shared by its threads."""

from django.conf import settings
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
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


def has_died() -> bool:
    """Spark was started and answers no more: only a new process can start it again."""
    if _Held.session is None:
        return False
    try:
        _Held.session.sparkContext.statusTracker().getActiveJobsIds()
    except (Py4JError, OSError):
        return True
    return False


def current() -> SparkSession | None:
    """The session; None in a light worker."""
    return _Held.session
