"""DQX on this engine: checks in a Delta table, rows split into Delta tables, by batch and stream.

Its own tests with Spark need a Databricks workspace; nothing here asks one.
"""

from unittest.mock import create_autospec

import pytest
from databricks.labs.dqx.config import InputConfig, OutputConfig, TableChecksStorageConfig
from databricks.labs.dqx.engine import DQEngine
from databricks.labs.dqx.profiler.profiler import DQProfiler
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import NotFound
from pyspark.sql import SparkSession

CHECKS = [
    {"criticality": "error", "check": {"function": "is_not_null", "arguments": {"column": "id"}}},
    {
        "criticality": "warn",
        "check": {
            "function": "is_in_range",
            "arguments": {"column": "total", "min_limit": 0, "max_limit": 100},
        },
    },
    {
        "criticality": "error",
        "check": {"function": "is_unique", "arguments": {"columns": ["id"]}},
    },
]
ROWS = [(1, 5), (2, 500), (3, 7), (3, 8), (None, 9)]


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.master("local[2]").getOrCreate()
    session.sql("CREATE DATABASE IF NOT EXISTS dq")
    rows = session.createDataFrame(ROWS, "id int, total int")
    rows.write.format("delta").mode("overwrite").saveAsTable("dq.orders")
    yield session
    session.stop()


@pytest.fixture
def engine(spark):
    """Return an engine whose workspace knows the tables of the session."""

    def find(full_name):
        if not spark.catalog.tableExists(full_name):
            raise NotFound(full_name)

    client = create_autospec(WorkspaceClient)
    client.tables.get.side_effect = find
    return DQEngine(client, spark)


def ids(spark, table):
    return sorted(row.id for row in spark.table(table).where("id IS NOT NULL").collect())


def test_checks_are_kept_in_a_table(engine, spark):
    place = TableChecksStorageConfig(
        location="dq.checks", run_config_name="orders", mode="overwrite"
    )
    for _ in range(2):
        engine.save_checks(CHECKS, config=place)
    found = [check["check"]["function"] for check in engine.load_checks(config=place)]
    assert sorted(found) == ["is_in_range", "is_not_null", "is_unique"]


def test_rows_are_split_into_tables(engine, spark):
    good, bad = engine.apply_checks_by_metadata_and_split(spark.table("dq.orders"), CHECKS)
    for _ in range(2):
        engine.save_results_in_table(
            output_df=good,
            quarantine_df=bad,
            output_config=OutputConfig(location="dq.good", mode="overwrite"),
            quarantine_config=OutputConfig(location="dq.bad", mode="append"),
        )
    assert ids(spark, "dq.good") == [1, 2]
    assert ids(spark, "dq.bad") == [2, 2, 3, 3, 3, 3]


def test_a_stream_is_checked(engine, spark, tmp_path):
    engine.apply_checks_by_metadata_and_save_in_table(
        checks=CHECKS[:2],
        input_config=InputConfig(location="dq.orders", is_streaming=True),
        output_config=OutputConfig(
            location="dq.streamed",
            trigger={"availableNow": True},
            options={"checkpointLocation": str(tmp_path / "checkpoint"), "mergeSchema": "true"},
        ),
    )
    assert ids(spark, "dq.streamed") == [1, 2, 3, 3]


def test_a_profile_reads_a_table(spark):
    summary, profiles = DQProfiler(create_autospec(WorkspaceClient), spark).profile(
        spark.table("dq.orders"), options={"sample_fraction": None, "limit": None}
    )
    assert summary["id"]["count_null"] == 1
    assert {profile.column for profile in profiles} <= {"id", "total"}
