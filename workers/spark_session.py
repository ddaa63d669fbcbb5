"""The one SparkSession of a worker, shared by its threads."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django.conf import settings
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from engine.spark.session import build_session
from engine.spark.task_counts import Cluster, cluster_of

_POOL = "spark.scheduler.pool"


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
        with suppress(Py4JError, OSError):  # it may have died before
            _Held.session.stop()
        _Held.session = None


def cluster() -> Cluster | None:
    """What Spark runs on, and how busy that is; None in a light worker, and where it died."""
    if _Held.session is None:
        return None
    try:
        return cluster_of(_Held.session.sparkContext)
    except (Py4JError, OSError):
        return None


def has_died() -> bool:
    """Spark was started and answers no more: only a new process can start it again."""
    if _Held.session is None:
        return False
    try:
        _Held.session.sparkContext.statusTracker().getActiveJobsIds()
    except (Py4JError, OSError):
        return True
    return False


@contextmanager
def session_for(job_id: UUID) -> Iterator[SparkSession | None]:
    """The session, this thread's work in a pool of its own; None in a light worker.

    Pools share the cores evenly: a small job does not wait behind a large one.
    """
    session = _Held.session
    if session is None:
        yield None
        return
    context = session.sparkContext
    context.setLocalProperty(_POOL, str(job_id))
    try:
        yield session
    finally:
        with suppress(Py4JError, OSError):  # Spark may have died meanwhile
            context.setLocalProperty(_POOL, None)  # type: ignore[arg-type] # clears it
