"""Spark's failures as the engine's errors: the one place that translates its exceptions.

The whole chain of causes decides the error, because Spark's own message is often about the
outermost link only. The message holds both ends of the chain, the error's facts (`causes`) hold all
of it, and the log holds the stack traces.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException

from engine.errors import (
    BadRowsError,
    DataFileError,
    DataFileMissingError,
    EngineError,
    InvariantViolationError,
    RequestError,
    StorageError,
)
from engine.schema.write_errors import row_breaks
from engine.storage.uri import normalize_uri

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

ROW_CHECK = "LAKE_ROW_CHECK"
"""Delimits the JSON report of `engine.spark.write.row_checks`."""

_log = logging.getLogger(__name__)
_ROW_REPORT = re.compile(ROW_CHECK + r"(\{.*?\})" + ROW_CHECK, re.DOTALL)
_RESTORE = "Restore the file, or restore the table to an earlier version."
_FILE = (
    re.compile(r"Path does not exist: (.+?)\.(?:\s*SQLSTATE|\s*\Z)", re.DOTALL),
    re.compile(r"while reading file (.+?)\.(?=\s|\Z)"),
    re.compile(r"No such file or directory: (\S+)"),
    re.compile(r"File (\S+) does not exist"),
)


class SparkJobError(EngineError, code="LAKE_SPARK_JOB_FAILED", sqlstate="XX000"):
    """A Spark job failed, and the request is not to blame."""


class SparkLostError(EngineError, code="LAKE_SPARK_LOST", sqlstate="58000"):
    """Spark, or a part of it, ended during the work: a fault of the machine, not of the request.

    The request can be run again once Spark has restarted.
    """


class SparkMemoryError(EngineError, code="LAKE_SPARK_OUT_OF_MEMORY", sqlstate="53200"):
    """Spark has less memory than the work needs."""


class InvalidValueError(RequestError, code="LAKE_INVALID_VALUE", sqlstate="22018"):
    """A cast or a computation refused by ANSI SQL."""


class ValueOverflowError(
    InvalidValueError, code="DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", sqlstate="22003"
):
    """A value out of the range of its column."""


class InsertOverflowError(ValueOverflowError, code="CAST_OVERFLOW_IN_TABLE_INSERT"):
    """A value of an INSERT out of the range of its column."""


class ValueNotParsedError(InvalidValueError, code="CAST_INVALID_INPUT"):
    """A text that cannot be parsed as its column's type."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failure by its signs, and its message; `{told}` is Spark's own message."""

    signs: re.Pattern[str]
    error: type[EngineError]
    what: str
    remedy: str


_VALUE = _Failure(
    re.compile(
        r": (ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|CAST_INVALID_INPUT|CAST_OVERFLOW"
        r"|CAST_OVERFLOW_IN_TABLE_INSERT|DIVIDE_BY_ZERO|DUPLICATED_MAP_KEY|INVALID_ARRAY_INDEX"
        r"|INVALID_ARRAY_INDEX_IN_ELEMENT_AT|INVALID_INDEX_OF_ZERO|NULL_MAP_KEY"
        r"|NUMERIC_VALUE_OUT_OF_RANGE|REMAINDER_BY_ZERO|SCALAR_SUBQUERY_TOO_MANY_ROWS"
        r"|USER_RAISED_EXCEPTION)(\.\w+)?$",
        re.MULTILINE,
    ),
    InvalidValueError,
    "A value cannot be computed: {told}",
    "Correct the value or the expression.",
)
_UNPARSED = replace(
    _VALUE,
    signs=re.compile(r": CAST_INVALID_INPUT(\.\w+)?$", re.MULTILINE),
    error=ValueNotParsedError,
)
_LOST = _Failure(
    re.compile(
        r"^(Py4JNetworkError|Connection\w*Error|BrokenPipeError): |Answer from Java side is empty"
        r"|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|ExecutorLostFailure|FetchFailed|ExecutorDeadException"
        r"|SparkContext (was|has been) shut ?down|stopped SparkContext"
        r"|Python worker exited unexpectedly|PYTHON_WORKER_EXITED",
        re.MULTILINE,
    ),
    SparkLostError,
    "Spark stopped while it worked on {where}: {told}",
    "Run it again after Spark has restarted.",
)
_REFUSED = _Failure(
    re.compile(
        r"Status Code: 40[13]\b|Access ?Denied|AccessControlException|InvalidAccessKeyId"
        r"|SignatureDoesNotMatch|signature we calculated|NoAuthWithAWS|NoAwsCredentials"
        r"|CredentialInitialization|Unable to load (AWS )?credentials|AuthenticationFailed"
        r"|Authorization(Failure|PermissionMismatch)|\b(401 Unauthorized|403 Forbidden)"
        r"|Permission denied"
    ),
    StorageError,
    "The store of {where} refused Spark: {told}",
    "Check the credentials in the table's storage options and their permissions.",
)
_REGION = _Failure(
    re.compile(
        r"Status Code: 301\b|PermanentRedirect|AuthorizationHeaderMalformed|is in this region"
    ),
    StorageError,
    "The store of {where} is in a different region than Spark expects: {told}",
    "Set aws_region in the table's storage options to the bucket's region.",
)
_MISSING = _Failure(
    re.compile(r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException|NoSuchKey"),
    DataFileMissingError,
    "A data file of {where} is missing: {told}",
    _RESTORE,
)
_UNREACHABLE = _Failure(
    re.compile(
        r"UnknownHostException|\bConnectException|SocketTimeoutException|NoRouteToHostException"
        r"|ConnectTimeoutException|Unable to execute HTTP request|UnknownStoreException"
        r"|NoSuchBucket|ConnectionClosedException|Premature end of|NoHttpResponseException"
        r"|failed to respond|SocketException|Connection reset|Connection refused|SSLException"
        r"|Status Code: 5\d\d\b|AWSServiceIOException|AWSClientIOException|AWSStatus5\d\dException"
    ),
    StorageError,
    "The store of {where} cannot be reached by Spark: {told}",
    "Check the connection and the store's name, then try again.",
)
_FULL = _Failure(
    re.compile("No space left on device|Disk quota exceeded"),
    StorageError,
    "A disk that Spark needs for {where} is full: {told}",
    "Free space for Spark's temporary files and for the table.",
)
_MEMORY = _Failure(
    re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY"),
    SparkMemoryError,
    "Spark ran out of memory on {where}: {told}",
    "Process less data at a time, or give Spark more memory (SPARK_DRIVER_MEMORY for local Spark).",
)
_MALFORMED = _Failure(
    re.compile("MALFORMED_CSV_RECORD|MALFORMED_RECORD_IN_PARSING"),
    BadRowsError,
    "A record of the source cannot be read: {told}",
    "Correct it, and check the delimiter and the quote character.",
)
_UNREADABLE = _Failure(
    re.compile(r"FAILED_READ_FILE|is not a Parquet file|ParquetDecodingException"),
    DataFileError,
    "A data file of {where} cannot be read: {told}",
    _RESTORE,
)
_PACKAGE = _Failure(
    re.compile(r"^ModuleNotFoundError: ", re.MULTILINE),
    SparkJobError,
    "A package is missing in the Python of Spark's executors: {told}",
    "Install it there, or set PYSPARK_PYTHON to a Python that has it before Spark starts.",
)
_UNKNOWN = _Failure(
    re.compile(""),
    SparkJobError,
    "Spark failed on {where}: {told}",
    "The error has the causes, and the log has the stack traces. Nothing was written.",
)
_FAILURES = (
    _UNPARSED,
    _VALUE,
    _MALFORMED,
    _MEMORY,
    _LOST,
    _REGION,
    _REFUSED,
    _MISSING,
    _UNREACHABLE,
    _FULL,
    _UNREADABLE,
    _PACKAGE,
    _UNKNOWN,
)


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


@contextmanager
def translate_spark_errors(where: str) -> Iterator[None]:
    """Translate Spark's exceptions to the engine's errors; `where` is the affected table.

    Raises:
        EngineError: as `spark_failure`.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        raise spark_failure(error, where) from error


def spark_failure(error: BaseException, where: str) -> EngineError:
    """Return a Spark failure as the engine's error, with its chain of causes in `causes`.

    `error` is one of `SPARK_ERRORS`, `where` the affected table.

    Returns:
        The error of a row check, or the engine's own error on an executor, as it was raised; else
        the
        entry of `_FAILURES` with its signs, or SparkJobError.
    """
    causes = causes_of(error)
    failure = (
        _find_row_check_error(causes)
        or _find_engine_error(causes)
        or _translate_spark_error(causes, where)
    )
    vars(failure)["causes"] = [str(cause) for cause in causes]
    if not isinstance(failure, RequestError | InvariantViolationError):
        _log.error("Spark failed on %s: %s\n%s", where, failure.what, stack_traces(error))
    return failure


def _translate_spark_error(causes: tuple[Cause, ...], where: str) -> EngineError:
    signs, told = "\n".join(map(_sign, select_informative(causes))), _summarize_causes(causes)
    failure = next(kind for kind in _FAILURES if kind.signs.search(signs))
    place = _file_in(causes) if failure is _MISSING else None
    if place is None:
        return failure.error(failure.what.format(where=where, told=told), failure.remedy)
    return _file_missing_error(place, where)


def _sign(cause: Cause) -> str:
    """Return the text that identifies a failure, without Spark's message, which quotes values."""
    if (python := cause.python_error) is not None:
        return f"{python.kind}: {python.text}"
    return f"{cause.kind}: {cause.condition or cause.text}"


def _summarize_causes(causes: tuple[Cause, ...]) -> str:
    """Join the first and the last informative cause of the chain."""
    words = [cause.words for cause in select_informative(causes)]
    first, root = words[0], words[-1]
    text = first if root in first else f"{first.rstrip('.')}. Caused by: {root}"
    text = text or "no reason was given"
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _file_in(causes: Iterable[Cause]) -> str | None:
    """Return the file that Spark looked for, as the engine spells it; None if Spark names none."""
    text = "\n".join(cause.text for cause in causes)
    path = next((named[1] for pattern in _FILE if (named := pattern.search(text))), None)
    try:
        return None if path is None else normalize_uri(path)
    except EngineError:
        return path


def _file_missing_error(place: str, where: str) -> EngineError:
    inside = f"{where.rstrip('/')}/"
    if place.startswith(inside):
        msg = f"The data file {place.removeprefix(inside)} of {where} is missing."
        return DataFileMissingError(msg, _RESTORE)
    msg = f"The file {place}, which is read for {where}, is missing."
    return DataFileMissingError(msg, "Restore the file, or read from another location.")


def _find_engine_error(causes: Iterable[Cause]) -> EngineError | None:
    """Return an error raised by the engine's own code on an executor."""
    for cause in causes:
        python = cause.python_error
        kind = None if python is None else _engine_errors().get(python.kind)
        if kind is not None and python is not None:
            return kind(python.text)
    return None


def _engine_errors() -> dict[str, type[EngineError]]:
    """Return the errors that can be built from their text alone, by full name."""
    plain = (EngineError.__init__, RequestError.__init__)
    kinds, left = {}, [EngineError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__init__ in plain:
            kinds[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kinds


def _find_row_check_error(causes: Iterable[Cause]) -> EngineError | None:
    """Return the error found by `engine.spark.write.row_checks`."""
    report = next((named[1] for cause in causes if (named := _ROW_REPORT.search(cause.text))), None)
    if report is None:
        return None
    try:
        facts: dict[str, Any] = json.loads(report)
    except ValueError:
        facts = {"kind": "bad row", "problem": report[:500]}
    if facts.get("kind") == "violation":
        return row_breaks(str(facts.get("rule")), str(facts.get("values")))
    if facts.get("kind") == "value":
        return _invalid_value_error(facts)
    place = f"Row {facts.get('record')} of {facts.get('file')}" if facts.get("file") else "A row"
    msg = f"{place} does not fit: {facts.get('problem')}. Nothing was written."
    return BadRowsError(msg, "Correct it, or set the job to drop bad rows.", field="source")


def _invalid_value_error(facts: dict[str, Any]) -> InvalidValueError:
    overflow = InsertOverflowError if facts.get("clause") == "INSERT" else ValueOverflowError
    kind = overflow if facts.get("overflow") == "true" else ValueNotParsedError
    value, place = str(facts.get("value"))[:200], facts.get("place")
    msg = (
        f"{facts.get('clause')}: {value!r} cannot be stored in {place}, which has the type "
        f"{facts.get('type')}."
    )
    return kind(f"{msg} Nothing was written.", "Correct the value, or cast it with TRY_CAST.")


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
