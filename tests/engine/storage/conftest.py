"""The real locations of stores: a directory, memory, and object stores as processes.

Azure is among them where `make azure` runs the tests.
"""

import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.storage.uri import open_store
from tests.engine.storage.azurite import EXECUTABLE, azure_container

CLOUDS = ["s3", "azure"] if EXECUTABLE else ["s3"]
SCHEMES = {"s3": "s3", "azure": "az"}


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own command
        try:
            address = _address(server)
            assert server.stderr is not None
            # A log that nobody reads would fill the pipe and stop the server.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield _options(address)
        finally:
            server.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    for line in server.stderr:
        match = re.search(r"Running on (http://[\d.:]+)", line)
        if match is not None:
            return match[1]
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


@pytest.fixture(scope="session")
def azure_options() -> Iterator[dict[str, str]]:
    with azure_container("lake") as options:
        yield options


@pytest.fixture(params=CLOUDS)
def bucket(request: pytest.FixtureRequest) -> str:
    """Return the URL of an existing bucket."""
    return f"{SCHEMES[request.param]}://lake"


@pytest.fixture
def options(request: pytest.FixtureRequest, bucket: str) -> dict[str, str]:
    """Return the storage options of the bucket."""
    name = "s3_options" if bucket.startswith("s3:") else "azure_options"
    given: dict[str, str] = request.getfixturevalue(name)
    return given


@pytest.fixture(params=["local", "memory", *CLOUDS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return LocalStore(tmp_path / "a table")
    if request.param == "memory":
        return MemoryStore(f"memory://{uuid.uuid4()}/t")
    place = f"{SCHEMES[request.param]}://lake/{uuid.uuid4()}/a table"
    return open_store(place, request.getfixturevalue(f"{request.param}_options"))
