"""Spark reads tables on S3 servers with the options of the table's store, in every operation."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from engine.storage.connectors import CONNECTORS, has_connector
from tests.engine.storage.versitygw import EXECUTABLE, versity_buckets

ROOT = Path(__file__).resolve().parents[3]
JARS = ROOT / "var" / "connectors"
FETCH = "Spark's connector for S3 is not here: manage.py connectors s3 --fetch (700 MB by Maven)"
END = [
    {"id": number, "day": day, "note": note, "extra": None}
    for number, day, note in (
        (1, "a b", "x"),
        (2, "a b", "y"),
        (3, "c/d", "z"),
        (4, "c/d", "ü"),
        (11, "a b", "x"),
        (12, "a b", "y"),
        (13, "c/d", "z"),
    )
]

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not has_connector(JARS, CONNECTORS["s3"]), reason=FETCH),
]


def _program(options: dict[str, str], *layouts: str) -> dict[str, Any]:
    module = "tests.engine.storage.spark_on_s3"
    command = [sys.executable, "-m", module, "s3://lake", json.dumps(options), str(JARS), *layouts]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603 - our own command
    assert outcome.returncode == 0, outcome.stderr[-4000:]
    told: dict[str, Any] = json.loads(outcome.stdout)
    return told


@pytest.mark.stress
@pytest.mark.spark
def test_every_operation_runs_on_spark_in_an_s3_server(s3_options: dict[str, str]) -> None:
    options = s3_options
    client = boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint_url"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
        region_name=options["aws_region"],
    )
    for bucket in ("lake-other", "lake-away"):
        client.create_bucket(Bucket=bucket)
    told = _program(options, "vectors")
    assert told["vectors"]["rows"] == END
    assert told["claims"] == [2, 2, 2, 2]  # whatever size the log claims
    _check_that_an_endpoint_may_end(told["away"])


def _check_that_an_endpoint_may_end(told: dict[str, Any]) -> None:
    """Check that the store is blamed, not the file, that nothing is committed, and that a rerun commits once."""
    assert told["dropped"] > 0
    assert told["code"] == "LAKE_STORAGE_ERROR", told["text"]
    assert "cannot be reached by Spark" in told["text"]
    assert "Restore" not in told["text"]
    assert (told["version"], told["rerun"]) == (2, 3)
    assert told["notes"] == ["x", "y", "x!", "y!"]


@pytest.fixture(scope="module")
def versity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    if not EXECUTABLE:
        pytest.skip("make s3 starts the other S3 server")
    with versity_buckets(
        tmp_path_factory.mktemp("s3"), "lake", "lake-other", "lake-away"
    ) as options:
        yield _program(options, "plain", "vectors", "partitioned")


@pytest.mark.s3
@pytest.mark.parametrize("layout", ["plain", "vectors", "partitioned"])
def test_every_operation_ends_with_the_same_rows_in_another_server(
    versity: dict[str, Any], layout: str
) -> None:
    assert versity[layout]["rows"] == END


@pytest.mark.s3
def test_another_server_that_ends_is_the_store_s_trouble(versity: dict[str, Any]) -> None:
    _check_that_an_endpoint_may_end(versity["away"])


@pytest.mark.s3
def test_a_wrong_secret_is_called_one_by_the_log_and_by_spark_alike(
    versity: dict[str, Any],
) -> None:
    assert "403 Forbidden" in versity["errors"]["log"]  # an answer to HEAD has no words
    assert "Check the credentials" in versity["errors"]["log"]
    assert "refused Spark" in versity["errors"]["spark"]
    assert "Check the credentials" in versity["errors"]["spark"]
    assert versity["errors"]["version after"] == "1"
