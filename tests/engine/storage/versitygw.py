"""VersityGW, an S3 server other than moto: fetched as a Go module and started for tests on Spark.

`make s3` runs this module. Unlike moto it checks signatures.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
EXECUTABLE = os.environ.get("VERSITYGW", "")
_KEY, _SECRET = "tester", "a secret of the tests"
_ROOT = Path(__file__).resolve().parents[3]
_HOME = _ROOT / "var" / "versitygw"


def main() -> int:
    """Fetch the server if necessary, then run the tests of Spark on S3 with it."""
    executable = _HOME / "versitygw"
    why = "" if executable.exists() else _install()
    if why:
        sys.stdout.write(f"Skipped: Spark was not tested on another S3 server, for {why}.\n")
        return 0
    fetch = [sys.executable, "manage.py", "connectors", "s3", "--fetch"]
    if not any((_ROOT / "var" / "connectors" / "s3").glob("*.jar")):
        subprocess.run(fetch, cwd=_ROOT, check=False)  # noqa: S603 - our own command
    tests = ["-m", "s3 or spark", "tests/engine/storage/test_spark_on_s3.py"]
    environment = {**os.environ, "VERSITYGW": str(executable)}
    command = [sys.executable, "-m", "pytest", *tests]
    return subprocess.run(command, env=environment, cwd=_ROOT, check=False).returncode  # noqa: S603 - our own command


def _install() -> str:
    """Install it below `var`; return why that failed, "" if it is installed."""
    go = shutil.which("go")
    if go is None:
        return "Go is missing (Debian: apt install golang)"
    _HOME.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(  # noqa: S603 - our own command
            [go, "install", MODULE],
            env={**os.environ, "GOBIN": str(_HOME)},
            check=True,
            timeout=1200,
            capture_output=True,
        )
    except (subprocess.SubprocessError, OSError):
        return "Go could not fetch VersityGW (is its module proxy in reach?)"
    return ""


@contextmanager
def versity_buckets(directory: Path, *buckets: str) -> Iterator[dict[str, str]]:
    """Yield the storage options of a server with empty buckets below a directory."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    keys = {**os.environ, "ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
    command = [EXECUTABLE, "--port", address, "--quiet", "posix", str(directory)]
    with subprocess.Popen(command, env=keys, stdout=subprocess.DEVNULL) as server:  # noqa: S603 - our own command
        try:
            options = {
                "aws_endpoint_url": f"http://{address}",
                "aws_region": "us-east-1",
                "aws_access_key_id": _KEY,
                "aws_secret_access_key": _SECRET,
                "allow_http": "true",
            }
            _create(options, buckets)
            yield options
        finally:
            server.terminate()


def _create(options: dict[str, str], buckets: tuple[str, ...]) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint_url"],
        aws_access_key_id=_KEY,
        aws_secret_access_key=_SECRET,
        region_name=options["aws_region"],
    )
    until = time.monotonic() + 30
    for bucket in buckets:
        while True:
            try:
                client.create_bucket(Bucket=bucket)
                break
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > until:
                    pytest.fail(f"the S3 server did not start: {error}")


if __name__ == "__main__":
    sys.exit(main())
