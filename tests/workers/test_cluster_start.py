"""A cluster that never starts a worker's application."""

import threading

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError

from engine.spark.session import SparkUnavailableError
from workers.spark_session import cluster_answers_within, errors_of_start

NOTHING = threading.Event()


def test_a_cluster_that_starts_no_application_is_reported_with_the_places_to_look_at():
    with (
        pytest.raises(SparkUnavailableError, match=r"Spark at yarn .* within 0\.05 s.*its queue"),
        cluster_answers_within(0.05, "yarn"),
    ):
        NOTHING.wait(60)


def test_no_call_between_spark_and_the_worker_swallows_the_end_of_the_wait():
    """Py4J treats any error of a call as a network error."""

    def call():
        try:
            NOTHING.wait(60)
        except Exception:  # noqa: BLE001 - as Py4J does
            return "swallowed"

    with pytest.raises(SparkUnavailableError), cluster_answers_within(0.05, "yarn"):
        assert call() != "swallowed"


@pytest.mark.parametrize("master", ["yarn", "local[2]"])
def test_a_start_in_time_leaves_no_alarm_behind(master):
    with cluster_answers_within(0.05, master):
        pass
    assert not NOTHING.wait(0.1)


def test_a_thread_that_cannot_be_interrupted_starts_spark_all_the_same():
    started = []

    def start():
        with cluster_answers_within(0.05, "yarn"):
            started.append(True)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert started == [True]


@pytest.mark.parametrize("kind", [Py4JError, PySparkRuntimeError])
def test_a_spark_that_does_not_start_ends_its_worker_with_its_message(kind):
    """Celery would log any other error, and accept jobs that cannot run."""
    said = (
        "SparkException: Must specify the executor container image\n\tat org.apache.spark.A.b(A:1)"
    )
    with (
        pytest.raises(SparkUnavailableError, match="Must specify the executor") as caught,
        errors_of_start("k8s://https://api:6443"),
    ):
        raise kind(said)
    assert "A.b" not in str(caught.value)
