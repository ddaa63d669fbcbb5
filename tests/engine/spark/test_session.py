import threading

import pytest
from pyspark.errors import PySparkException

from engine.errors import OperationCancelledError
from engine.spark.jobs import Progress, job_group
from engine.spark.session import SparkUnavailableError, check_java

pytestmark = [pytest.mark.timeout(120)]


def test_a_machine_without_java_is_told_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="Install Java 17"):
        check_java()


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
        "SELECT builtin.java_method('java.lang.System', 'getenv', 'PATH')",
        "SELECT TRANSFORM (1) USING 'cat' AS (x)",
    ],
)
def test_text_that_reached_spark_could_not_reach_the_machine(spark, text):
    with pytest.raises(PySparkException):
        spark.sql(text).collect()


@pytest.mark.spark
def test_progress_is_told_and_can_cancel(spark):
    seen = []

    def progress(step: Progress) -> None:
        seen.append(step)
        if step.total:
            msg = "Cancelled."
            raise OperationCancelledError(msg)

    def slowly(batches):
        for batch in batches:
            threading.Event().wait(30)
            yield batch

    with pytest.raises(OperationCancelledError), job_group(spark, "slow", progress):
        spark.range(2).mapInArrow(slowly, "id long").toArrow()
    assert seen[0] == Progress("slow", 0, 0)
    assert spark.range(3).count() == 3
