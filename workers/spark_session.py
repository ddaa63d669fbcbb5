"""The one SparkSession of a worker, shared by its threads."""

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.spark.class_archive import ClassArchive
from engine.spark.session import SparkUnavailableError, build_session, run_first_task
from engine.spark.task_counts import Cluster, cluster_of
from engine.storage.connectors import connector_jars

logger = logging.getLogger(__name__)

_JAVA_STACK = "\n\tat "
_POOL = "spark.scheduler.pool"
_UI = {
    "spark.ui.enabled": "true",
    # without authentication: show it, but allow no actions
    "spark.ui.killEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
}


class _TooLateError(BaseException):
    """Nothing between Spark and here may take it for an error of a call."""


class _SessionHolder:
    session: SparkSession | None = None
    archive: ClassArchive | None = None
    application = ""
    started: tuple[datetime, datetime] | None = None
    is_ending = False


def start() -> None:
    """Start Spark and run a first small job.

    Raises:
        SparkUnavailableError: there is no Java, Spark does not start, or gives this worker no core.
    """
    began = timezone.now()
    kill_after = {"spark.task.reaper.killTimeout": f"{settings.SPARK_TASK_KILL_SECONDS}s"}
    jars = connector_jars(settings.SPARK_CONNECTORS)
    archive = ClassArchive(settings.LAKEUI_HOME / "classes", jars)
    with (
        cluster_answers_within(settings.SPARK_START_SECONDS, settings.SPARK_MASTER),
        errors_of_start(settings.SPARK_MASTER),
    ):
        session = archive.start(
            lambda: build_session(
                "lakeui",
                master=settings.SPARK_MASTER,
                settings={**kill_after, **_ui_settings()},
                jars=jars,
            )
        )
    try:
        run_first_task(session, settings.SPARK_START_SECONDS)
    except SparkUnavailableError:
        session.stop()
        raise
    _SessionHolder.application = session.sparkContext.applicationId
    _SessionHolder.session = session
    # a JVM crashes when it dumps classes with a directory (Hadoop's) on its class path
    _SessionHolder.archive = None if settings.SPARK_MASTER.startswith("yarn") else archive
    _SessionHolder.started = (began, timezone.now())


@contextmanager
def cluster_answers_within(seconds: float, master: str) -> Iterator[None]:
    """Interrupt the start of an application that a cluster leaves waiting.

    YARN accepts an application and starts it once its queue has room, however late; Kubernetes'
    client
    retries an unreachable API without end. Spark reports neither. Only the main thread can be
    interrupted;
    others wait.

    Raises:
        SparkUnavailableError: it took longer.
    """
    if master.startswith("local") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise _TooLateError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TooLateError as error:
        msg = f"Spark at {master} did not start this worker's application within {seconds:g} s."
        remedy = (
            "Check on the cluster's pages that it runs and has room for one more application "
            "(on YARN, check its queue and spark.yarn.am.memory). SPARK_START_SECONDS sets "
            "the time limit."
        )
        raise SparkUnavailableError(msg, remedy) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def errors_of_start(master: str) -> Iterator[None]:
    """Translate the reason why Spark did not start: Celery ignores any other error.

    Raises:
        SparkUnavailableError: with Spark's message, without Java's stack.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        msg = f"Spark at {master} did not start: {str(error).split(_JAVA_STACK, maxsplit=1)[0]}"
        raise SparkUnavailableError(
            msg[:1000], "Spark's output before this message has the details."
        ) from error


def _ui_settings() -> Mapping[str, str]:
    """Return the settings of Spark's own pages, if wanted: on this machine alone in local mode."""
    if not settings.SPARK_UI:
        return {}
    if settings.SPARK_MASTER.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return _UI


def stop() -> None:
    """End the JVM, if there is one; the first to end keeps its classes for the next start."""
    if _SessionHolder.session is not None:
        if _SessionHolder.archive is not None:
            _SessionHolder.archive.keep(_SessionHolder.session)
        with suppress(Py4JError, OSError):  # it may have died before
            _SessionHolder.session.stop()
        _SessionHolder.session = None


def application() -> str:
    """Return the id of this worker's Spark application; "" in a light worker."""
    return _SessionHolder.application


def start_times() -> tuple[datetime, datetime] | None:
    """Return when this worker began and finished starting Spark; None in a light worker."""
    return _SessionHolder.started


def cluster() -> Cluster | None:
    """Return Spark's cluster and its load; None in a light worker, or if Spark died."""
    if _SessionHolder.session is None:
        return None
    try:
        return cluster_of(_SessionHolder.session.sparkContext)
    except (Py4JError, OSError):
        return None


def end_if_local() -> bool:
    """End a local Spark, and so its tasks that ignore interrupts; return whether it did.

    On a cluster Spark's task reaper ends the executor. The running jobs are handed back.
    """
    session = _SessionHolder.session
    if session is None or not (session.sparkContext.master or "").startswith("local"):
        return False
    session.sparkContext._gateway.proc.kill()  # type: ignore[union-attr] # it was started here
    return True


def has_died() -> bool:
    """Spark was started, and was stopped or answers no more: only a new process can start it again."""
    if _SessionHolder.session is None:
        return False
    try:
        return bool(_SessionHolder.session.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def end_worker_if_dead() -> bool:
    """Shut this process down if its Spark died: its supervisor starts a new one.

    Other threads finish their work without Spark, such as a running commit.
    """
    if not has_died():
        return False
    if not _SessionHolder.is_ending:
        _SessionHolder.is_ending = True
        logger.error("Spark has died, so this worker exits and is restarted")
        os.kill(os.getpid(), signal.SIGTERM)
    return True


@contextmanager
def session_for(job_id: UUID) -> Iterator[SparkSession | None]:
    """Return the session with a pool for this thread's work; None in a light worker.

    Pools share the cores evenly: a small job does not wait behind a large one.
    """
    session = _SessionHolder.session
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
