"""What Spark counted of a group's tasks, against work whose size is known."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from engine.spark.jobs import Progress, job_group
from engine.spark.task_counts import TaskCounts, cluster_of

pytestmark = pytest.mark.spark


def last_of(spark, work) -> Progress:
    """What was told when the work had ended."""
    seen: list[Progress] = []
    with job_group(spark, "work", seen.append):
        work()
    return seen[-1]


def test_the_end_tells_tasks_bytes_and_the_slowest_task(spark, tmp_path):
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


def test_a_group_without_spark_jobs_counts_nothing(spark):
    told = last_of(spark, lambda: None)
    assert (told.total, told.counts, told.times) == (0, TaskCounts(), None)


def test_the_cluster_says_its_cores(spark):
    cluster = cluster_of(spark.sparkContext)
    assert cluster.cores == spark.sparkContext.defaultParallelism
    assert (cluster.executors, cluster.busy_cores) == (1, 0)
