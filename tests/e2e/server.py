"""The web server as users run it: a separate process over a given database."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

from tests.ports import port_for_later
from tests.services import CLOCK

_PATIENCE_S = 90


@contextmanager
def run_server(log: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the address of a server over this process's database; stop the server at the end.

    `more` are additional environment variables, such as another database.
    """
    port = port_for_later()
    name = connection.settings_dict["NAME"]
    environment = os.environ | {
        "DATABASE_URL": os.environ.get("E2E_DATABASE_URL") or f"sqlite:///{name}",
        "LAKEUI_HOME": str(settings.LAKEUI_HOME),
        "SECRET_KEY": settings.SECRET_KEY,
        "TABLE_ROOTS": "s3://demo-lake",
        "BROKER_URL": "memory://",
        "LOG_LEVEL": "ERROR",
        **(more or {}),
    }
    command = [sys.executable, "-m", "uvicorn", "lakeui.asgi:application", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own server
            [
                *command,
                "--log-level",
                "warning",
                "--no-proxy-headers",
                "--timeout-graceful-shutdown",
                "1",
            ],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/login/", process, log)
            yield f"http://localhost:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = CLOCK.monotonic_s() + _PATIENCE_S
    while CLOCK.monotonic_s() < until:
        try:
            with urllib.request.urlopen(url, timeout=10):  # noqa: S310 - our own address
                return
        except OSError:  # not listening yet, or too slow in its first answer
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            break
    msg = f"The server did not start: {log.read_text('utf-8', 'replace')[-2000:]}"
    raise RuntimeError(msg)
