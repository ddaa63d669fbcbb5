"""The API over Spark Connect: a server from the pyspark package, and a client without a JVM."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400), pytest.mark.xdist_group("connect")]
PROGRAM = Path(__file__).with_name("connect_program.py")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Run the program once and return its observations."""
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs pyspark[connect], and grpc is not installed")
    place = tmp_path_factory.mktemp("connect")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1",  # PySpark then takes any free port
    }
    done = subprocess.run(  # noqa: S603 - this project's own program
        [sys.executable, str(PROGRAM), str(place)],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
        env=environment,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_session_under_test_is_spark_connects(results):
    assert results["session"].startswith("pyspark.sql.connect")


def test_rows_are_deleted_updated_and_merged(results):
    assert results["rows"] == [["a", 1], ["b", 20]]
    assert results["merge"] == [[2, 1, 0, 1]]
    assert results["merged"] == [["a", 7], ["b", 20], ["e", 5]]
    assert results["by identity"] == [["a", 7], ["b", 20], ["e", 50]]


def test_an_overlap_in_one_file_is_resolved_at_row_level(results):
    assert results["conflicts"] == 1


def test_a_source_made_from_the_table_counts_as_read_at_its_version(results):
    assert results["own source"] in {"DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_DELETE_READ"}


def test_views_that_may_read_the_table_are_no_source_for_it(results):
    assert results["views"] == [[["a", 30]], True]


def test_errors_are_those_of_a_classic_session(results):
    assert results["errors"] == [
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "DELTA_MISSING_DELTA_TABLE",
        "TABLE_OR_VIEW_ALREADY_EXISTS",
    ]


def test_maintenance_and_conversion_work(results):
    assert results["upkeep"] == {
        "optimized": 1,
        "restored": "table_size_after_restore",
        "vacuumed": 0,
        "operation": "VACUUM END",
        "format": "delta",
        "converted": [["x", 1]],
    }


def test_an_enabled_session_reads_writes_and_merges(results):
    assert results["enabled"] == {
        "read": [[1, "mon"], [2, "tue"]],
        "path": 4,
        "name": [[1, "sun"], [2, "tue"], [3, "fri"], [3, "fri"]],
        "history": "WRITE",
        "changed": [
            [[1, "sun"], [3, "fri"], [3, "fri"]],
            [[11, "mon"], [11, "mon"], [12, "tue"], [12, "tue"]],
        ],
        "statements": [
            [[2, 1, 0, 1]],
            [[1, "mon"], [2, "TUE"], [5, "wed"]],
            [[2], [5]],
            [[2], [5]],
            "LAKE_STATEMENT_NOT_ROUTED",
            True,
        ],
        "plain": 1,
        "plain read": 2,
    }


def test_bounds_of_files_rule_out_no_not_a_number(results):
    assert results["NaN"] == [1, 1, 1, 2, 3, 1]


def test_a_column_mapped_by_id_is_filtered_as_itself(results):
    refusal, rows = results["by id"]
    assert "spark.sql.parquet.fieldId.read.enabled to true" in refusal
    assert rows == [[30]]
