import threading
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import ConcurrentAppendException, OperationCancelledError
from engine.operations.run import run
from engine.spark.jobs import Progress, job_group, no_progress
from engine.spark.session import (
    SparkUnavailableError,
    build_session,
    check_java,
    cluster_settings,
    run_first_task,
    start_configuration,
)
from engine.spark.task_counts import cluster_of
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver

pytestmark = [pytest.mark.timeout(120)]


def test_a_machine_without_java_is_advised_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="Install Java 17"):
        check_java()


def test_yarn_without_the_configuration_of_hadoop_names_the_variable(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SparkUnavailableError, match="Set HADOOP_CONF_DIR"):
        build_session("lakeui", master="yarn")


@pytest.mark.spark
def test_a_first_task_without_a_core_names_the_setting_that_helps(spark, tmp_path):
    held = tmp_path / "held"
    held.touch()

    def hold(_):
        while held.exists():
            threading.Event().wait(0.05)

    both_cores = spark.sparkContext.parallelize([0, 1], 2)
    holder = threading.Thread(target=both_cores.foreach, args=(hold,))
    holder.start()
    try:
        with pytest.raises(SparkUnavailableError, match=r"no core .* within 1 s.*SPARK_CORES_MAX"):
            run_first_task(spark, 1)
    finally:
        held.unlink()
        holder.join()
    run_first_task(spark, 60)


@pytest.mark.parametrize(
    ("variables", "master", "cores"),
    [
        ({}, "spark://127.0.0.1:7077", "4"),
        ({"SPARK_CORES_MAX": "9"}, "spark://127.0.0.1:7077", "9"),
        ({"SPARK_CORES_MAX": "0"}, "spark://127.0.0.1:7077", None),
        ({}, "yarn", None),
    ],
)
def test_a_driver_uses_only_some_cores_of_a_standalone_cluster(
    monkeypatch, variables, master, cores
):
    monkeypatch.delenv("SPARK_CORES_MAX", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cluster_settings(master).get("spark.cores.max") == cores


def test_the_client_of_yarn_starts_with_a_local_file_system_that_knows_its_scheme():
    """Otherwise it fails with `UnsupportedOperationException` for every upload."""
    setting = "spark.hadoop.fs.file.impl"
    assert setting not in start_configuration("yarn")
    for master in ("local[2]", "spark://127.0.0.1:7077", "k8s://https://api:6443"):
        assert start_configuration(master)[setting].endswith(".RawLocalFileSystem")


def test_a_driver_in_a_pod_names_it_so_that_its_executors_end_with_it(monkeypatch):
    monkeypatch.setenv("SPARK_DRIVER_POD_NAME", "spark-worker-0")
    settings = cluster_settings("k8s://https://api:6443")
    assert settings["spark.kubernetes.driver.pod.name"] == "spark-worker-0"


def test_executors_on_kubernetes_get_the_name_of_the_driver_and_not_its_listening_address(
    monkeypatch,
):
    monkeypatch.setenv("SPARK_DRIVER_HOST", "192.0.2.1")
    monkeypatch.setenv("SPARK_DRIVER_BIND_ADDRESS", "0.0.0.0")  # noqa: S104 - nothing listens
    settings = cluster_settings("k8s://https://api:6443")
    assert settings["spark.kubernetes.executor.useDriverPodIP"] == "false"


def test_a_driver_in_a_container_says_where_it_is_reached(monkeypatch):
    monkeypatch.setenv("SPARK_DRIVER_HOST", "spark-worker")
    monkeypatch.setenv("SPARK_DRIVER_BIND_ADDRESS", "192.0.2.1")
    assert cluster_settings("yarn") == {
        "spark.driver.host": "spark-worker",
        "spark.driver.bindAddress": "192.0.2.1",
    }


class InsertAtNineInNewYork(TransactionObserver):
    """An observer that inserts a row before the observed commit."""

    def __init__(self, table, spark):
        self._table, self._spark = table, spark

    def staged(self, txn):
        if txn.read_version == 2:
            insert = "INSERT INTO t VALUES (TIMESTAMP '2024-01-02T02:00:00Z')"
            run(insert, self._table, self._spark)


@pytest.mark.spark
def test_a_condition_of_another_zone_finds_its_rows_and_its_conflicts(spark, tmp_path):
    """02:00 UTC is hour 21 in New York; a check in UTC would mistake the new row for another one."""
    table = DeltaTable(open_store(str(tmp_path / "t")))
    level = "TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')"
    run(f"CREATE TABLE t (ts TIMESTAMP) {level}", table)
    first = "INSERT INTO t VALUES (TIMESTAMP '2024-01-01T02:00:00Z'), (TIMESTAMP '2024-01-01T21:00:00Z')"
    run(first, table, spark)
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert run("DELETE FROM t WHERE hour(ts) = 21", table, other).metrics["numDeletedRows"] == 1
    with pytest.raises(ConcurrentAppendException):
        run(
            "DELETE FROM t WHERE hour(ts) IN (16, 21)",
            table,
            other,
            observer=InsertAtNineInNewYork(table, spark),
        )
    assert table.snapshot().to_arrow()["ts"].to_pylist() == [
        datetime(2024, 1, 1, 21, tzinfo=UTC),
        datetime(2024, 1, 2, 2, tzinfo=UTC),
    ]


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
def test_progress_is_reported_and_can_cancel(spark):
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


@pytest.mark.spark
def test_a_cancelled_run_returns_when_its_tasks_have_ended(spark):
    """java.util.regex ignores interrupts and takes long here; Spark's own LIKE gets such a pattern.

    There are more tasks than cores, so that some have not begun when the first look cancels them.
    """
    letters = F.expr("repeat(chr(97 + CAST(id AS INT) * 0), 900 + CAST(id AS INT))")
    frame = spark.range(0, 12, 1, 12).select(letters.like("%a%a%b"))

    def progress(step: Progress) -> None:
        if step.counts is not None and step.counts.running:
            msg = "Cancelled."
            raise OperationCancelledError(msg)

    with pytest.raises(OperationCancelledError), job_group(spark, "deaf", progress):
        frame.collect()
    assert cluster_of(spark.sparkContext).busy_cores == 0


@pytest.mark.spark
def test_a_failed_run_returns_when_its_other_tasks_have_ended(spark):
    letters = F.expr("repeat(chr(97 + CAST(id AS INT) * 0), 900 + CAST(id AS INT))")
    fails = F.when(F.col("id") == 1, F.raise_error(F.lit("no"))).cast("boolean")
    frame = spark.range(0, 2, 1, 2).select(F.coalesce(fails, letters.like("%a%a%b")))
    with pytest.raises(PySparkException), job_group(spark, "deaf", no_progress):
        frame.collect()
    assert cluster_of(spark.sparkContext).busy_cores == 0
