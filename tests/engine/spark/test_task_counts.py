"""Spark's counters of a job group's tasks, compared with work of known size."""

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import SparkRuntimeException
from pyspark.sql import functions as F  # noqa: N812

from engine.spark.jobs import Progress, job_group
from engine.spark.task_counts import SHOWN_STAGES, GroupTasks, StageList, TaskCounts, cluster_of

pytestmark = pytest.mark.spark


def last_of(spark, work) -> Progress:
    """Return the last report after the work had ended."""
    seen: list[Progress] = []
    with job_group(spark, "work", seen.append):
        work()
    return seen[-1]


def test_the_last_report_has_tasks_bytes_and_the_slowest_task(spark, tmp_path):
    place = str(tmp_path / "rows")
    spark.range(40_000).repartition(4).write.parquet(place)
    size = sum(file.stat().st_size for file in (tmp_path / "rows").glob("*.parquet"))
    rows = spark.read.parquet(place).repartition(3, "id")
    told = last_of(spark, lambda: rows.agg(F.max("id")).collect())
    counts, times = told.counts, told.times
    assert counts is not None
    assert times is not None
    assert (told.done, counts.running) == (told.total, 0)
    assert 0 < counts.bytes_read < 4 * size
    assert counts.bytes_shuffled > 0
    assert 0 <= times.median_ms <= times.slowest_ms <= counts.core_ms


def test_a_stage_whose_result_was_there_counts_no_task(spark):
    rows = spark.sparkContext.parallelize(range(100), 4).map(lambda n: (n % 2, n)).groupByKey(2)
    rows.count()
    again = last_of(spark, rows.count)
    assert (again.done, again.total) == (2, 2)


def test_the_last_report_has_each_stage_with_its_tasks_and_the_bytes_read_and_shuffled(
    spark, tmp_path
):
    place = str(tmp_path / "rows")
    spark.range(40_000).repartition(4).write.parquet(place)
    rows = spark.read.parquet(place).repartition(3, "id")
    told = last_of(spark, lambda: rows.agg(F.max("id")).collect())
    stages = told.stages.stages
    assert told.stages.total == len(stages) == 3
    assert [stage.status for stage in stages] == ["complete"] * 3
    assert sum(stage.tasks for stage in stages) == sum(stage.done for stage in stages) == told.total
    assert sum(stage.core_ms for stage in stages) == told.counts.core_ms
    reading, middle, last = stages
    assert (reading.rows_read, reading.bytes_read) == (40_000, told.counts.bytes_read)
    assert reading.shuffle_written == middle.shuffle_read > 0
    assert middle.shuffle_written == last.shuffle_read > 0
    assert reading.started_ms <= reading.ended_ms <= middle.ended_ms <= last.ended_ms


def test_a_stage_that_failed_says_how_many_of_its_tasks_did(spark):
    seen: list[Progress] = []
    rows = spark.range(0, 10, 1, 2).select(F.raise_error(F.lit("no")))
    with pytest.raises(SparkRuntimeException), job_group(spark, "work", seen.append):
        rows.collect()
    (stage,) = seen[-1].stages.stages
    assert stage.status == "failed"
    assert 0 < stage.failed <= 2


def test_the_longest_stages_are_reported_and_the_others_counted(spark):
    def work() -> None:
        for _ in range(SHOWN_STAGES + 2):
            spark.range(2).count()

    told = last_of(spark, work).stages
    assert told.total > SHOWN_STAGES
    assert 8 <= len(told.stages) <= SHOWN_STAGES
    moments = [stage.started_ms for stage in told.stages]
    assert moments == sorted(moments)


def test_work_continues_where_stages_cannot_be_read(spark, monkeypatch):
    def fail(*_: object) -> None:
        raise Py4JError("no")  # noqa: EM101

    monkeypatch.setattr(GroupTasks, "_stage_told", fail)
    told = last_of(spark, spark.range(10).count)
    assert told.stages is None
    assert told.done == told.total > 0


def test_a_group_without_spark_jobs_counts_nothing(spark):
    told = last_of(spark, lambda: None)
    assert (told.total, told.counts, told.times) == (0, TaskCounts(), None)
    assert told.stages == StageList()


def test_the_cluster_says_its_cores(spark):
    cluster = cluster_of(spark.sparkContext)
    assert cluster.cores == spark.sparkContext.defaultParallelism
    assert (cluster.executors, cluster.busy_cores) == (1, 0)
