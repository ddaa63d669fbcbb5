"""The workers' Celery app. Run it with `celery -A workers.celery worker -P threads -Q spark`.

The SparkSession starts while the worker is built, before its pool has threads: PySpark's gateway
forks, and a fork beside running threads can hang.
"""

import logging
from typing import Any

from celery.signals import worker_init, worker_shutdown

from engine.errors import EngineError
from lakeui import tracing
from lakeui.celery import app
from lakeui.task_names import SPARK_QUEUE
from workers import spark_session

logger = logging.getLogger(__name__)

app.conf.broker_transport_options |= {"socket_timeout": 30}  # no caller waits for results
app.conf.imports = (
    "workers.jobs",
    "workers.mirror",
    "workers.periodic_tasks",
    "workers.managed",
    "workers.preview",
    "workers.reads",
    "workers.conflicts",
    "workers.report",
)


@worker_init.connect
def start_spark(sender: Any, **_: object) -> None:  # noqa: ANN401 - Celery's worker
    """Start Spark if the worker takes Spark jobs; light workers never load a JVM."""
    if SPARK_QUEUE in sender.app.amqp.queues.consume_from:
        try:
            spark_session.start()
        except EngineError as error:  # Celery would only log it, and accept jobs that cannot run
            logger.critical("%s", error)
            raise SystemExit(1) from error


@worker_init.connect
def start_traces(**_: object) -> None:
    """Send spans if a collector is configured."""
    tracing.start("lakeui-worker")


@worker_shutdown.connect
def stop_spark(**_: object) -> None:
    """Leave no JVM behind."""
    spark_session.stop()
    tracing.stop()
