"""The chain of causes of a Spark exception, link by link.

Spark's own message is often about the outermost link only: the message of a store, a file or a
Python worker stands further in.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""Exceptions of Spark calls: its own errors, and those of a connection to a dead JVM."""

_MAX_CAUSES = 20
_MAX_TEXT = 100_000
_MAX_FACT = 1000
_MAX_SHOWN = 500
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\] ?")
_WRAPPER = re.compile(
    r"Job aborted|Job \d+ cancelled|Exception thrown in|Task failed while writing"
    r"|[\w.$]+(Exception|Error)(: |$)|$"
)
_FRAME = re.compile(r'\s+File ".*", line \d+')
_TRACE = re.compile(
    r"\s*SQLSTATE: |\s+at [\w.$/]+\(|\s+\.\.\. \d+ more|Driver stacktrace|Caused by: "
)
_PYTHON_ERROR = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PythonError:
    """An error of Python code on an executor: its full name and its text."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of a chain of exceptions: its class and its message."""

    kind: str
    text: str

    def __str__(self) -> str:
        """Both in one line, bounded."""
        return f"{self.kind}: {' '.join(self.text.split())}"[:_MAX_FACT]

    @property
    def condition(self) -> str:
        """Spark's name of the error, `FAILED_READ_FILE.FILE_NOT_EXIST`; empty if it has none."""
        named = (_CONDITION.search if self.is_wrapper else _CONDITION.match)(self.text)
        return "" if named is None else named[1]

    @property
    def is_wrapper(self) -> bool:
        """Whether it only says that something else failed."""
        return _WRAPPER.match(self.text) is not None

    @property
    def python_error(self) -> PythonError | None:
        """The error at the end of a traceback in its text, None without a traceback."""
        lines = self.text.splitlines()
        frames = [n for n, line in enumerate(lines) if _FRAME.match(line)]
        after = range(frames[-1] + 1, len(lines)) if frames else range(0)
        start = next((n for n in after if lines[n][:1].strip()), None)
        if start is None:
            return None
        end = next((n for n in after if n > start and _TRACE.match(lines[n])), len(lines))
        named = _PYTHON_ERROR.match("\n".join(lines[start:end]).strip())
        return None if named is None else PythonError(named[1], named[2] or "")

    @property
    def words(self) -> str:
        """Its message in one line, bounded, without traces."""
        if (python := self.python_error) is not None:
            return _line(f"{python.kind.rpartition('.')[2]}: {python.text}")
        lines = self.text.splitlines()
        end = next((n for n, line in enumerate(lines) if _TRACE.match(line)), len(lines))
        return _line(re.sub(r"\s*SQLSTATE: \w+\s*$", "", "\n".join(lines[:end])))


def causes_of(error: BaseException) -> tuple[Cause, ...]:
    """Return the causes of a Spark error, outermost first; an error outside Java has one."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else None
    java = getattr(error, "_origin", None) if java is None else java
    return tuple(iter_causes(java)) or (Cause(type(error).__name__, str(error)[:_MAX_TEXT]),)


def select_informative(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that are not mere wrappers; all of them if there is none."""
    return tuple(cause for cause in causes if not cause.is_wrapper) or causes


def stack_traces(error: BaseException) -> str:
    """Return every stack trace of a Java error, causes included."""
    try:
        return str(getattr(error, "_stackTrace", None) or error)
    except SPARK_ERRORS:  # they come from Java, which may be gone
        return type(error).__name__


def iter_causes(java: Any) -> Iterator[Cause]:  # noqa: ANN401 - a Java object
    """Yield the chain of an exception of Java's, outermost first."""
    for _ in range(_MAX_CAUSES):
        if java is None:
            return
        try:
            kind, text = str(java.getClass().getName()), java.getMessage()
            java = java.getCause()
        except SPARK_ERRORS:  # Java is gone: keep the causes read so far
            return
        yield Cause(kind, (text or "")[:_MAX_TEXT])


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}…"
