"""The places a store can be in, real ones: a directory, memory, and an S3 server as a process."""

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.storage.uri import open_store


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    try:
        yield _options(_address(server))
    finally:
        server.terminate()
        server.wait(10)
        assert server.stderr is not None
        server.stderr.close()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    for line in server.stderr:
        found = re.search(r"Running on (http://[\d.:]+)", line)
        if found is not None:
            return found[1]
    pytest.fail("the S3 server did not start")


def _options(address: str) -> dict[str, str]:
    client = boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id="tester",
        aws_secret_access_key="tester",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="lake")
    return {
        "aws_endpoint_url": address,
        "aws_region": "us-east-1",
        "aws_access_key_id": "tester",
        "aws_secret_access_key": "tester",
        "allow_http": "true",
    }


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return LocalStore(tmp_path / "a table")
    if request.param == "memory":
        return MemoryStore(f"memory://{uuid.uuid4()}/t")
    return open_store(f"s3://lake/{uuid.uuid4()}/a table", request.getfixturevalue("s3_options"))
