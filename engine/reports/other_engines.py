"""Conflicts in programs that use delta-spark or deltalake: reported, and raised again unchanged.

For example:

    with engine.delta.reporting(table="sales.orders"):
        DeltaTable.forName(spark, "sales.orders").merge(...).execute()
"""

import inspect
import logging
import re
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ContextDecorator
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from engine.clock import Clock, SystemClock, utc_from_ms
from engine.conflicts.decide.checker import CHECKS
from engine.reports.outbox import ReportOutbox
from engine.reports.settings import outbox

logger = logging.getLogger(__name__)

_NAMES = sorted({name for check in CHECKS for name in (check.error.__name__, check.error.code)})
_CONFLICT = re.compile(
    rf"\b(?:{'|'.join(_NAMES)}|ConcurrentWriteException|DELTA_CONCURRENT_WRITE"
    r"|DELTA_MAX_COMMIT_RETRIES_EXCEEDED|CommitFailedError)\b"
    r"|a concurrent transaction |since last commit|[Cc]oncurrent transaction failed"
    r"|[Tt]ransaction conflict detected|Failed to commit transaction: \d"
    r"|by a concurrent update"
)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_LINKS, _LINK_CHARS = 6, 8_000


def reporting(*, table: str, operation: str = "", statement: str = "") -> "ConflictReports":
    """Return a context manager and decorator for reporting conflicts of other engines.

    `table` is its name in the dashboard, or its location; `operation` the block's operation, as the
    log names it: MERGE; `statement` its SQL, if any.
    """
    return ConflictReports(table, operation, statement)


class ConflictReports(ContextDecorator):
    """Reports a conflict raised in its block; other exceptions pass unexamined."""

    def __init__(
        self,
        table: str,
        operation: str = "",
        statement: str = "",
        box: ReportOutbox | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._table, self._operation, self._statement = table, operation, statement
        self._given, self._clock = box, clock or SystemClock()
        self._started_ms: list[int] = []

    def _recreate_cm(self) -> "ConflictReports":
        """Create reports for each call of a decorated function: calls may overlap."""
        return ConflictReports(
            self._table, self._operation, self._statement, self._given, self._clock
        )

    def __call__(self, function: _Function) -> _Function:
        """Wrap the function in its own block; for coroutines and generators, their whole run."""
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def run_coroutine(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the function's
                with self._recreate_cm():
                    return await function(*arguments, **named)

            return cast("_Function", run_coroutine)
        if inspect.isgeneratorfunction(function):

            @wraps(function)
            def run_generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401
                with self._recreate_cm():
                    return (yield from function(*arguments, **named))

            return cast("_Function", run_generator)
        return super().__call__(function)

    def __enter__(self) -> "ConflictReports":
        self._started_ms.append(self._clock.now_ms())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        started_ms = self._started_ms.pop()
        try:
            box = self._given or outbox()
            if box is not None and isinstance(error, Exception):
                self._report(box, error, started_ms)
        except Exception:  # a failing report must not hide the program's own error
            logger.exception("A conflict could not be reported")

    def _report(self, box: ReportOutbox, error: Exception, started_ms: int) -> None:
        text = text_of(error)
        if not _CONFLICT.search(text):
            return
        now_ms = max(started_ms, self._clock.now_ms())
        box.put(
            {
                "kind": "reported",
                "table": self._table,
                "txn_id": str(uuid.uuid4()),
                "sequence": 0,
                "at": utc_from_ms(now_ms).isoformat(),
                "started_at": utc_from_ms(started_ms).isoformat(),
                "operation": self._operation.upper(),
                "statement": self._statement,
                "text": text,
            }
        )


def text_of(error: BaseException) -> str:
    """Return the messages of an error and its causes: streaming queries wrap the relevant one."""
    return "\n".join(f"{_name(link)}: {_message(link)}" for link in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    pending: deque[BaseException | None] = deque([error])
    seen: set[int] = set()
    while pending and len(seen) < _LINKS:
        link = pending.popleft()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            pending.extend(link.exceptions)
        pending.append(link.__cause__ or link.__context__)


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_LINK_CHARS]
    except Exception:  # a Java error has no text after its process ended
        logger.debug("An error has no message", exc_info=True)
        return ""
