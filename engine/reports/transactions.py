"""Observer reporting each transaction's events: begun, resolved, aborted, committed, failed."""

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.clock import Clock, SystemClock, utc_from_ms
from engine.commands.command import Command
from engine.errors import ConflictError, EngineError
from engine.reports.outbox import ReportOutbox
from engine.reports.settings import name_application, outbox
from engine.transaction.observer import (
    ObservedTransaction,
    Observers,
    TransactionObserver,
    count_staged_bytes,
)
from engine.transaction.pending_commit import ResolvedConflict

logger = logging.getLogger(__name__)


Words = Callable[[], tuple[str, str, str]]
"""The operation, its statement, and the application's name."""


def _no_words() -> tuple[str, str, str]:
    return "", "", ""


@contextmanager
def report_transaction(
    given: TransactionObserver | None,
    table: str,
    words: Words = _no_words,
    *,
    is_told: bool = True,
    is_last: bool = False,
) -> Iterator[TransactionObserver | None]:
    """Yield the caller's observer combined with a reporting one, if reports are on.

    `table` is the location of the table; `words` returns the operation, its statement and the
    application's name, each "" if unknown, and is called only if reports are on. At the end of the
    block, transactions without a result are reported as ended, or as failed after an exception. Dry
    runs (`is_told` false) are not reported. With `is_last`, events are saved to disk at once,
    because the process may end abruptly, as Spark's Python workers do.
    """
    box = outbox() if is_told else None
    if box is None:
        yield given
        return
    operation, statement, application = _safely(words)
    name_application(application)
    reports = ReportingObserver(box, table, operation, statement)
    kind = "failed"
    try:
        yield reports if given is None else Observers([given, reports])
        kind = "ended"
    finally:
        reports.end(kind)
        if is_last:
            box.save()


@dataclass
class _ReportState:
    """The reported state of a running transaction."""

    started_ms: int
    attempt: int
    read_version: int
    events: int = 0


class ReportingObserver(TransactionObserver):
    """Puts an event of each phase into the outbox. It raises nothing and waits for nothing."""

    def __init__(
        self,
        box: ReportOutbox,
        table: str,
        operation: str = "",
        statement: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._box, self._table = box, table
        self._operation, self._statement = operation, statement
        self._clock = clock or SystemClock()
        self._run_id = str(uuid.uuid4())
        self._running: dict[str, _ReportState] = {}
        self._aborted = 0

    def started(self, txn: ObservedTransaction) -> None:
        """Report the start."""
        self._report(txn, "begun")

    def conflict_resolved(self, txn: ObservedTransaction, conflict: ResolvedConflict) -> None:
        """Report a conflict resolved by rows."""
        self._report(txn, "resolved", conflict=conflict)

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """Report the version."""
        self._report(txn, "committed", version=committed_version)

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """Report the abort with its conflict; for other errors, the end."""
        if isinstance(error, ConflictError):
            name, wasted = type(error).__name__, count_staged_bytes(txn)
            self._report(
                txn, "aborted", conflict=error.conflict, exception=name, wasted_bytes=wasted
            )
            self._aborted += 1
        else:
            self._report(txn, "failed")

    def end(self, kind: str) -> None:
        """Report the end of all running transactions."""
        for txn_id, told in list(self._running.items()):
            self._put(txn_id, told, kind, {})

    def _report(self, txn: ObservedTransaction, kind: str, **more: Any) -> None:  # noqa: ANN401 - JSON
        fresh = _ReportState(self._clock.now_ms(), self._aborted + 1, txn.read_version)
        self._put(txn.txn_id, self._running.setdefault(txn.txn_id, fresh), kind, more)

    def _put(self, txn_id: str, told: _ReportState, kind: str, more: dict[str, Any]) -> None:
        try:
            self._box.put(self._event(txn_id, told, kind, more))
        except Exception:  # an error in a report must not stop the write
            logger.exception("A transaction could not be reported")

    def _event(
        self, txn_id: str, told: _ReportState, kind: str, more: dict[str, Any]
    ) -> dict[str, Any]:
        now_ms = self._clock.now_ms()
        event = {
            "kind": kind,
            "table": self._table,
            "txn_id": txn_id[:100],
            "run_id": self._run_id,
            "sequence": told.events,
            "at": utc_from_ms(max(now_ms, told.started_ms)).isoformat(),
            "started_at": utc_from_ms(told.started_ms).isoformat(),
            "attempt": min(told.attempt, 1000),
            "operation": self._operation,
            "statement": self._statement,
            "read_version": told.read_version,
            **more,
        }
        told.events += 1
        if kind in _ENDS:
            del self._running[txn_id]
        return event


_ENDS = ("committed", "aborted", "failed", "ended")


def _safely(words: Words) -> tuple[str, str, str]:
    try:
        return words()
    except Exception:  # an error in the words must not stop the write
        logger.exception("The name of a transaction could not be determined")
        return _no_words()


def words_of(command: Command) -> tuple[str, str]:
    """Return a command's name and its SQL, "" if it has none."""
    operation = command.kind.removeprefix("alter_").replace("_", " ").upper()
    try:
        return operation, command.statement()
    except (EngineError, TypeError, ValueError, AttributeError):  # the source has no text form
        return operation, ""
