import threading

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.sql import parse_statement
from engine.errors import EngineError, OperationCancelledError
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

pytestmark = [pytest.mark.timeout(120)]


def test_a_machine_without_java_is_told_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="Install Java 17"):
        check_java()


def test_yarn_without_the_configuration_of_hadoop_is_told_with_the_variable(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SparkUnavailableError, match="Set HADOOP_CONF_DIR"):
        build_session("lakeui", master="yarn")


@pytest.mark.spark
def test_a_first_task_that_gets_no_core_is_told_with_the_setting_that_helps(spark, tmp_path):
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
def test_a_driver_takes_only_some_cores_of_a_standalone_cluster(
    monkeypatch, variables, master, cores
):
    monkeypatch.delenv("SPARK_CORES_MAX", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cluster_settings(master).get("spark.cores.max") == cores


def test_the_client_of_yarn_starts_with_a_local_file_system_that_knows_its_scheme():
    """Else it fails with `UnsupportedOperationException`, whatever it sends."""
    setting = "spark.hadoop.fs.file.impl"
    assert setting not in start_configuration("yarn")
    for master in ("local[2]", "spark://127.0.0.1:7077", "k8s://https://api:6443"):
        assert start_configuration(master)[setting].endswith(".RawLocalFileSystem")


def test_a_driver_in_a_pod_names_it_so_that_its_executors_end_with_it(monkeypatch):
    monkeypatch.setenv("SPARK_DRIVER_POD_NAME", "spark-worker-0")
    settings = cluster_settings("k8s://https://api:6443")
    assert settings["spark.kubernetes.driver.pod.name"] == "spark-worker-0"


def test_executors_on_kubernetes_are_told_the_name_of_the_driver_and_not_where_it_listens(
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


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "value"),
    [("spark.sql.session.timeZone", "America/New_York"), ("spark.sql.ansi.enabled", "false")],
)
def test_conditions_mean_the_same_in_a_session_of_another_zone_or_without_ansi(
    spark, tmp_path, setting, value
):
    """hour(ts) = 21 would delete a row there that the check against winners takes for another."""
    table = DeltaTable(open_store(str(tmp_path / "t")))
    run(parse_statement("CREATE TABLE t (ts TIMESTAMP)"), table, None)
    run(parse_statement("INSERT INTO t VALUES (TIMESTAMP '2024-01-01T02:00:00Z')"), table, spark)
    other = spark.newSession()
    other.conf.set(setting, value)
    delete = parse_statement("DELETE FROM t WHERE hour(ts) = 21")
    assert run(delete, table, other).metrics["numDeletedRows"] == 0
    with pytest.raises(EngineError):
        run(parse_statement("DELETE FROM t WHERE 1 / (hour(ts) - 2) = 1"), table, other)
    assert run(parse_statement("DELETE FROM t WHERE hour(ts) = 2"), table, other).version == 2
    assert other.conf.get(setting) == value


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


@pytest.mark.spark
def test_what_is_cancelled_is_left_when_its_tasks_have_ended(spark):
    """java.util.regex heeds no interrupt, and takes long here: Spark's own LIKE is given to it.

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
def test_what_failed_is_left_when_its_other_tasks_have_ended(spark):
    letters = F.expr("repeat(chr(97 + CAST(id AS INT) * 0), 900 + CAST(id AS INT))")
    fails = F.when(F.col("id") == 1, F.raise_error(F.lit("no"))).cast("boolean")
    frame = spark.range(0, 2, 1, 2).select(F.coalesce(fails, letters.like("%a%a%b")))
    with pytest.raises(PySparkException), job_group(spark, "deaf", no_progress):
        frame.collect()
    assert cluster_of(spark.sparkContext).busy_cores == 0
