"""One process of the stack: its own session, its own log, restarted when it dies."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.clock import Clock, SystemClock
from lakeui.private_files import open_private, write_private

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 60.0
_LONG_LOG_BYTES = 10 * 1024 * 1024
_PROC = Path("/proc")
_ORPHAN_S = 20.0
_LOOK_AGAIN_S = 0.05
MARK = "LAKEUI_STACK"
"""A variable of every process of a stack; its value is the stack's directory."""


@dataclass(frozen=True)
class Program:
    """A child's program. `input` is written at its start; `once`: an exit with 0 is its end."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    input: str = ""
    once: bool = False


class Child:
    """A program kept running.

    It starts in a session of its own, so that Ctrl-C reaches the stack alone, and ending the
    session ends its own children too (Spark's JVM and its Python workers).
    """

    def __init__(self, program: Program, log: Path, clock: Clock | None = None) -> None:
        self.program = program
        self.log = log
        self.done = False
        self._clock = clock or SystemClock()
        self._process: subprocess.Popen[str] | None = None
        self._started_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._start_at: float | None = None

    def start(self) -> None:
        """Run the program."""
        self._start_at = None
        self._started_at = self._clock.monotonic_s()
        self._turn_log()
        with open_private(self.log, "a") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the stack's own programs
                list(self.program.command),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **self.program.environment},
                start_new_session=True,
            )
        if self._process.stdin is not None:
            self._process.stdin.write(self.program.input)
            self._process.stdin.close()

    def is_running(self) -> bool:
        """Return whether the program runs now."""
        return self._process is not None and self._process.poll() is None

    def supervise(self) -> str:
        """Restart the program if it died and its pause is over; return a message, if any."""
        if self.done or self.is_running() or self._process is None:
            return ""
        if self._start_at is None:
            return self._note_end(self._process.returncode)
        if self._clock.monotonic_s() >= self._start_at:
            self.start()
        return ""

    def terminate(self) -> None:
        """Ask the program alone to end; do not restart it.

        Its children run on until then: without its JVM, the worker would fail its jobs instead of
        leaving them to the next start.
        """
        self.done = True
        if self._process is not None and self.is_running():
            self._process.terminate()

    def kill(self) -> None:
        """Kill the rest of the program's session."""
        self.done = True
        if self._process is None:
            return
        self._end_session()
        if self._process.poll() is None:
            self._process.wait()

    def leftovers(self) -> list[int]:
        """Return the live processes of the program's session, on systems that can tell."""
        if self._process is None:
            return []
        session = self._process.pid
        return [pid for pid in _pids() if _session_of(pid) == session]

    def pids(self) -> list[int]:
        """Return the process of the program, if it runs."""
        return [self._process.pid] if self._process is not None and self.is_running() else []

    def _note_end(self, code: int | None) -> str:
        if self.program.once and code == 0:
            self.done = True
            return ""
        self._end_session()  # leftovers of a dead program
        if self._clock.monotonic_s() - self._started_at > _STEADY_S:
            self._pause_s = _FIRST_PAUSE_S
        self._start_at = self._clock.monotonic_s() + self._pause_s
        report = (
            f"{self.program.name} ended with {code} and restarts in {self._pause_s:.0f} s "
            f"(log: {self.log})"
        )
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return report

    def _turn_log(self) -> None:
        """Rotate a long log; keep one older log."""
        if self.log.exists() and self.log.stat().st_size > _LONG_LOG_BYTES:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))

    def _end_session(self) -> None:
        """Kill the program and its children, also in groups of their own."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in self.leftovers():
            _kill(pid)


def remember(children: Sequence[Child], home: Path) -> None:
    """Record the processes of a stack: a process that hides its environment is found by this."""
    pids = [pid for child in children for pid in child.pids()]
    lines = [f"{pid} {_start_of(pid)}" for pid in pids]
    write_private(_pid_file(home), "\n".join(lines))


def end_orphans(home: Path, clock: Clock | None = None) -> list[int]:
    """End the processes that a killed stack of this directory left; return when they are gone.

    A signal is only the beginning of a process's end: its port is free once it is gone. Return the
    ids of processes that did not end, normally none. Only the holder of the directory's lock may
    call this: to anyone else they are not orphans.
    """
    clock = clock or SystemClock()
    until = clock.monotonic_s() + _ORPHAN_S
    killed: set[int] = set()
    while left := _orphans(home) | {pid for pid in killed if _stat_of(pid)}:
        if clock.monotonic_s() >= until:
            return sorted(left)
        for pid in left - killed:
            _kill(pid)
        killed |= left
        clock.pause(_LOOK_AGAIN_S)
    return []


def _orphans(home: Path) -> set[int]:
    mark = f"{MARK}={home}".encode()
    remembered = _read_pid_file(home)
    return {
        pid
        for pid in _pids()
        if pid != os.getpid()
        and (mark in _environment_of(pid) or remembered.get(pid, "") == _start_of(pid))
    }


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.glob("[0-9]*")] if _PROC.is_dir() else []


def _pid_file(home: Path) -> Path:
    return home / "run" / "children"


def _read_pid_file(home: Path) -> dict[int, str]:
    try:
        lines = _pid_file(home).read_text("utf-8").splitlines()
    except OSError:
        return {}
    return {int(pid): start for pid, _, start in (line.partition(" ") for line in lines)}


def _start_of(pid: int) -> str | None:
    """Return a process's start: with its id, its identity. None if it is gone."""
    fields = _stat_of(pid)
    return fields[19] if fields else None


def _stat_of(pid: int) -> list[str]:
    """Return the fields after the name, from the state on; none for a zombie or a dead process.

    A zombie holds nothing any more, unless it is the first of several threads: the others still
    have the process's files and ports.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] in "ZX" and int(fields[17]) <= 1 else fields


def _environment_of(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _session_of(pid: int) -> int | None:
    """Return the session of a live process; None if it is gone."""
    fields = _stat_of(pid)
    return int(fields[3]) if fields else None
