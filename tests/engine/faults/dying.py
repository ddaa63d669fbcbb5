"""Processes killed by SIGKILL at a chosen moment of an operation.

A moment is the start or the end of a store call, or a system call of a write in between: the
temporary file is opened, linked, renamed or removed. On a managed table it is a system call, or a
line of the embedded catalog.

    python -m tests.engine.faults.dying

reads one request a line, forks a child with all modules imported, and answers with one line after
the child has ended.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pandas  # noqa: F401 - otherwise each child would import it
import pyarrow as pa

from engine.catalog import embedded
from engine.errors import EngineError
from engine.storage.base import FileStatus
from engine.storage.local import LocalStore
from tests.engine.faults.killed_operations import MANAGED_OPERATIONS, OPERATIONS, OnManaged

_ROOT = Path(__file__).resolve().parents[3]
TraceFunction = Callable[[FrameType, str, Any], Any]
_WRITES = ("open", "os.link", "os.rename", "os.remove", "os.mkdir")


@dataclass
class Moments:
    """The moments of one process, in order. The process dies at the `fatal` one; 0 means never."""

    fatal: int = 0
    names: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        self.reach(f"before {name}")
        yield
        self.reach(f"after {name}")

    def watch(self, place: str) -> None:
        """Count changes that the system makes below a directory as moments too."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event not in _WRITES or not str(arguments[0]).startswith(place):
                return
            if event != "open" or "x" in str(arguments[1]):
                self.reach(f"{event} {Path(str(arguments[0])).name}")

        sys.addaudithook(hook)

    def trace(self, module: str) -> None:
        """Count each line of a module as a moment, too."""

        def reach_line(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
            if frame.f_code.co_filename != module:
                return None
            if event == "line":
                self.reach(f"line {frame.f_lineno} of {Path(module).name}")
            return reach_line

        sys.settrace(reach_line)


class DeadlyStore(LocalStore):
    """A table on disk that reports the start and the end of each call."""

    def __init__(self, place: str, moments: Moments) -> None:
        super().__init__(place)
        self._moments = moments

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        with self._moments.mark(f"read {path}"):
            return super().read(path, start, length)

    def stat(self, path: str) -> FileStatus | None:
        with self._moments.mark(f"stat {path}"):
            return super().stat(path)

    def open_input(self, path: str) -> pa.NativeFile:
        with self._moments.mark(f"open {path}"):
            return super().open_input(path)

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        with self._moments.mark(f"list {directory}"):
            files = list(super().list_from(directory, start))
        return iter(files)

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        with self._moments.mark(f"list all {prefix}"):
            files = list(super().list_all(prefix))
        return iter(files)

    def put_if_absent(self, path: str, data: bytes) -> None:
        with self._moments.mark(f"create {path}"):
            super().put_if_absent(path, data)

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        with self._moments.mark(f"put {path}"):
            super().put_stream(path, pieces)

    def delete(self, path: str) -> None:
        with self._moments.mark(f"delete {path}"):
            super().delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def make_durable(self, paths: Iterable[str]) -> None:
        with self._moments.mark("make durable"):
            super().make_durable(paths)


@dataclass(frozen=True)
class Death:
    """The end of a process: killed or not, acknowledged or not, and the moments it reached."""

    killed: bool
    acknowledged: bool
    error: str | None
    moments: tuple[str, ...]


class Undertaker:
    """The process that forks the children to be killed; one serves a whole sweep."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.faults.dying"],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, operation: str, place: str, txn_id: str, fatal: int = 0) -> Death:
        """Run an operation on a table in a child that dies at a given moment."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"operation": operation, "place": place, "txn_id": txn_id, "fatal": fatal}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Death(
            answer["killed"], answer["acknowledged"], answer["error"], tuple(answer["moments"])
        )

    def close(self) -> None:
        self._process.communicate()


def _do(request: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
    """Run the operation in the child."""
    moments = Moments(request["fatal"])
    store = DeadlyStore(request["place"], moments)
    moments.watch(request["place"])
    error = None
    operation = (OPERATIONS | MANAGED_OPERATIONS)[request["operation"]]
    if isinstance(operation, OnManaged):
        moments.trace(embedded.__file__)
    try:
        operation.act(store, request["txn_id"])
        tell({"acknowledged": True})
    except EngineError as raised:
        error = repr(raised)
    tell({"error": error, "moments": moments.names})


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as lines:
            _do(request, lambda said: print(json.dumps(said), file=lines, flush=True))
        os._exit(0)
    os.close(writing)
    answer = {"acknowledged": False, "error": None, "moments": []}
    with os.fdopen(reading, encoding="utf-8") as lines:
        for line in lines:
            answer |= json.loads(line)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and status:
        answer["error"] = f"ended with {status}"
    return {**answer, "killed": killed}


def main() -> None:
    """Answer requests until the input ends."""
    pa.set_cpu_count(1)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
