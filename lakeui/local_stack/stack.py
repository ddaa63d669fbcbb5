"""The embedded stack: a broker, the web server, two workers and the clock, as child processes.

The web server starts before the workers, so that the first page is served while Spark warms up.
"""

import fcntl
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from django.conf import settings

from engine.clock import SystemClock
from lakeui.local_stack.child import MARK, Child, Program, remember
from lakeui.local_stack.preflight import HOST, free_port, listens, redis_server
from lakeui.private_files import open_private, write_private

SPARK_WORKER = "spark-worker"
_TICK_S = 0.5
_GRACE_S = 10.0
_WEB_START_S = 60.0
_CELERY = (sys.executable, "-m", "celery", "-A")
_WORKER = ("worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "INFO")
_READS = ("worker", "--pool", "prefork", "--concurrency", "3", "--loglevel", "INFO")
_QUIET = ("--without-gossip", "--without-mingle")


class AlreadyRunningError(Exception):
    """Another process runs the stack of this directory."""


def broker_program(port: int, password: str) -> Program:
    """Return a private Redis without persistence: the jobs' rows are the truth."""
    configuration = "\n".join(
        (
            f"bind {HOST}",
            f"port {port}",
            f"requirepass {password}",
            "protected-mode yes",
            'save ""',
            "appendonly no",
            "daemonize no",
            f"dir {_quote_path(settings.LAKEUI_HOME / 'run')}",
        )
    )
    return Program("redis", (redis_server() or "redis-server", "-"), input=configuration + "\n")


_ENDS = ("--timeout-graceful-shutdown", "3")  # a stream of events would go on for minutes


def programs(port: int, *, spark: bool, demo: bool) -> list[Program]:
    """Return the programs beside the broker, in order of their start."""
    python = sys.executable
    web = (python, "-m", "uvicorn", "lakeui.asgi:application", "--host", HOST, "--port", str(port))
    workers = "workers.celery"
    parts = [
        Program(
            "web", (*web, "--lifespan", "off", "--no-access-log", *_ENDS, "--no-proxy-headers")
        ),
        Program(
            "light-worker", (*_CELERY, workers, *_WORKER, *_QUIET, "-Q", "light", "-n", "light@%h")
        ),
        Program(
            "reads-worker", (*_CELERY, workers, *_READS, *_QUIET, "-Q", "reads", "-n", "reads@%h")
        ),
        Program(
            SPARK_WORKER, (*_CELERY, workers, *_WORKER, *_QUIET, "-Q", "spark", "-n", "spark@%h")
        ),
        Program("beat", (*_CELERY, "lakeui.celery", "beat", "--pidfile=", "--loglevel", "WARNING")),
    ]
    if not spark:
        parts = [program for program in parts if program.name != SPARK_WORKER]
    elif demo:
        parts.append(Program("demo", (python, "-m", "lakeui", "demo"), once=True))
    return parts


class Stack:
    """The running processes, from the first to the last."""

    def __init__(self, report: Callable[[str], None]) -> None:
        """Handle SIGINT, SIGTERM and SIGHUP from now on; `report` receives deaths."""
        self._report = report
        self._children: list[Child] = []
        self._asked_to_stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop_later)

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._asked_to_stop.is_set()

    def start(self, beside: Sequence[Program]) -> None:
        """Start the broker, then the programs in order, unless a stop is requested."""
        os.environ[MARK] = str(settings.LAKEUI_HOME)
        os.environ["CELERY_SKIP_CHECKS"] = "1"  # they load every page, in each worker
        for program in (*self._broker(), *beside):
            if self.is_stopping:
                break
            child = Child(program, settings.LAKEUI_HOME / "logs" / f"{program.name}.log")
            child.start()
            self._children.append(child)
        remember(self._children, settings.LAKEUI_HOME)

    def wait_for_web(self, port: int) -> bool:
        """Whether the web server took a connection before its time was up."""
        clock = SystemClock()
        until = clock.monotonic_s() + _WEB_START_S
        while clock.monotonic_s() < until and not self._asked_to_stop.wait(0.1):
            if listens(port):
                return True
        return False

    def run(self) -> None:
        """Keep everything running until SIGINT or SIGTERM."""
        while not self._asked_to_stop.wait(_TICK_S):
            before = self._pids()
            for child in self._children:
                if report := child.supervise():
                    self._report(report)
            if self._pids() != before:
                remember(self._children, settings.LAKEUI_HOME)

    def stop(self) -> list[int]:
        """End every started process; return the ids of those that did not end (none)."""
        for child in reversed(self._children):
            child.terminate()
        clock = SystemClock()
        until = clock.monotonic_s() + _GRACE_S
        while any(child.is_running() for child in self._children) and clock.monotonic_s() < until:
            clock.pause(0.1)
        for child in self._children:
            child.kill()
        (settings.LAKEUI_HOME / "run" / "broker_url").unlink(missing_ok=True)
        until = clock.monotonic_s() + _GRACE_S
        while (left := self._leftovers()) and clock.monotonic_s() < until:
            clock.pause(0.1)  # a JVM takes a moment to exit
        return left

    def _leftovers(self) -> list[int]:
        return [pid for child in self._children for pid in child.leftovers()]

    def _broker(self) -> list[Program]:
        """Return a private Redis, known to every child; none if BROKER_URL names another broker."""
        if "BROKER_URL" in os.environ:
            return []
        port, password = free_port(), secrets.token_urlsafe(24)
        url = f"redis://:{password}@{HOST}:{port}/0"
        write_private(settings.LAKEUI_HOME / "run" / "broker_url", url)
        os.environ["BROKER_URL"] = url
        return [broker_program(port, password)]

    def _pids(self) -> list[int]:
        return [pid for child in self._children for pid in child.pids()]

    def _stop_later(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._asked_to_stop.set()


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the directory for this process; raise `AlreadyRunningError` if another one has it."""
    path = settings.LAKEUI_HOME / "run" / "lock"
    with open_private(path, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AlreadyRunningError from error
        yield


def _quote_path(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
