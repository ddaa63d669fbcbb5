"""The workers' Celery app. Run it with `celery -A workers.celery worker -P threads -Q spark`.

The SparkSession starts while the worker is built, before its pool has threads: PySpark's gateway
forks, and a fork beside running threads can hang.
"""

from typing import Any

from celery.signals import worker_init, worker_shutdown

from lakeui.celery import app
from lakeui.task_names import SPARK_QUEUE
from workers import spark_session

app.conf.imports = (
    "workers.jobs",
    "workers.mirror",
    "workers.maintenance",
    "workers.preview",
    "workers.conflict_rows",
    "workers.report",
)


@worker_init.connect
def start_spark(sender: Any, **_: object) -> None:  # noqa: ANN401 - Celery's worker
    """Start Spark where the worker takes Spark jobs; light workers never load a JVM."""
    if SPARK_QUEUE in sender.app.amqp.queues.consume_from:
        spark_session.start()


@worker_shutdown.connect
def stop_spark(**_: object) -> None:
    """Leave no JVM behind."""
    spark_session.stop()
