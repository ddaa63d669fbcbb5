"""Real services as processes: a Redis, and Celery workers that join the test's database."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import connection

from engine.clock import SystemClock
from lakeui.celery import app
from lakeui.local_stack.child import _pids, _session_of
from lakeui.local_stack.preflight import free_port, redis_server

ROOT = Path(__file__).resolve().parents[1]
CLOCK = SystemClock()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 45.0) -> None:
    """Wait until a condition holds; fail with the name of the missing event."""
    until = CLOCK.monotonic_s() + seconds
    while not condition():
        assert CLOCK.monotonic_s() < until, f"waited {seconds} s in vain for {what}"
        CLOCK.pause(0.05)


@contextmanager
def run_redis() -> Iterator[str]:
    """The URL of a Redis that keeps nothing."""
    with tempfile.TemporaryDirectory() as directory:
        process, port = _redis_on_a_port_of_its_own(Path(directory))
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            end(process)


def _redis_on_a_port_of_its_own(directory: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """A port that was free a moment ago may be taken: then Redis ends, and another port is tried."""
    log = directory / "log"
    while True:
        port = free_port()
        command = [redis_server(), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603
                [*command, "--dir", str(directory)], stdout=out, stderr=subprocess.STDOUT
            )
        wait_until(partial(_has_started_or_ended, process, log), "redis-server")
        if process.poll() is None:
            return process, port
        assert "in use" in log.read_text(), log.read_text()


def _has_started_or_ended(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    return "Ready to accept connections" in log.read_text() or process.poll() is not None


def end(process: "subprocess.Popen[Any]") -> None:
    """Ask a process to end, and kill it if it does not; return once it has ended."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def point_celery_to(url: str) -> None:
    """Send this process's messages to a broker."""
    app._pool = None
    app.amqp._producer_pool = None
    settings.CELERY_BROKER_URL = url
    app.conf.broker_url = app.conf.broker_write_url = app.conf.broker_read_url = url


class WorkerProcess:
    """A Celery worker; `kill` ends it as a machine failure would."""

    def __init__(self, queue: str, broker_url: str, log: Path, include: str = "") -> None:
        """Start it; `include` names a module with further tasks."""
        self.log = log
        command = [sys.executable, "-m", "celery", "-A", "workers.celery", "worker"]
        pool = ["-P", "prefork", "-c", "2"] if queue == "reads" else ["-P", "threads", "-c", "4"]
        options = [*pool, "-Q", queue, "-n", f"{queue}-{log.stem}@test"]
        options += ["-I", include] if include else []
        with log.open("w") as out:
            self._process = subprocess.Popen(  # noqa: S603
                [*command, *options, "--without-gossip", "--without-mingle", "-l", "INFO"],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_environment(broker_url)},
                start_new_session=True,
            )

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Return when it takes messages."""
        wait_until(lambda: " ready." in self.log.read_text(), f"the worker of {self.log}", seconds)

    def kill(self) -> None:
        """Kill the process and all that it started by SIGKILL; return once they have ended."""
        self.signal(signal.SIGKILL)
        for pid in self._session():  # Spark's Python workers have groups of their own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(20)
        wait_until(lambda: not self._session(), f"what {self.log} started to be gone")

    def is_running(self) -> bool:
        """Return True if it has not ended."""
        return self._process.poll() is None

    def kill_java(self) -> None:
        """Kill only its JVM by SIGKILL; return once it has ended."""
        java = next(pid for pid in self._session() if _name_of(pid) == "java")
        os.kill(java, signal.SIGKILL)
        wait_until(lambda: _session_of(java) is None, "the JVM to be gone")

    def _session(self) -> list[int]:
        return [pid for pid in _pids() if _session_of(pid) == self._process.pid]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has ended meanwhile
        return ""


def _environment(broker_url: str) -> dict[str, str]:
    return {
        "BROKER_URL": broker_url,
        "CELERY_SKIP_CHECKS": "1",  # Django's checks load every page, which takes a second
        "DATABASE_URL": _database_url(),
        "TABLE_ROOTS": ",".join(settings.TABLE_ROOTS),
        "SOURCE_ROOTS": ",".join(settings.SOURCE_ROOTS),
        "JOB_LEASE_SECONDS": "2",
        "JOB_HEARTBEAT_SECONDS": "1",
        "REHEARSAL_LIMIT_SECONDS": "30",
        "READ_SECONDS": str(settings.READ_SECONDS),
        "DRY_RUN_SECONDS": str(settings.DRY_RUN_SECONDS),
        "READ_BYTES": str(settings.READ_BYTES),
    }


def _database_url() -> str:
    """Return the URL of the test's own database for another process."""
    if connection.vendor == "sqlite":
        return f"sqlite:///{connection.settings_dict['NAME']}"
    parts = urlsplit(os.environ["TEST_DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
