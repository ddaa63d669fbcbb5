"""Named phases of a transaction, for interleaving tests and for metrics."""

import logging
from collections.abc import Sequence
from typing import Protocol

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.actions.written_files import file_changes
from engine.transaction.pending_commit import ResolvedConflict

_log = logging.getLogger(__name__)


class ObservedTransaction(Protocol):
    """The facts of a transaction available to observers."""

    @property
    def read_version(self) -> int:
        """The version it reads, -1 if it creates the table."""
        ...

    @property
    def txn_id(self) -> str:
        """The id recorded in its commit."""
        ...

    @property
    def operation(self) -> str:
        """The operation's name; "" before the commit."""
        ...

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions staged so far."""
        ...


class TransactionObserver:
    """Receives each phase as it begins; every method does nothing unless overridden.

    `before_commit` comes after all checks against winning commits and before the log is written: an
    error from it stops the transaction with nothing written. The table and the staged files are
    checked after it, however long it takes. An error from `committed` is logged: the version
    stands.
    """

    def started(self, txn: ObservedTransaction) -> None:
        """Handle the start: the read version is fixed."""

    def staged(self, txn: ObservedTransaction) -> None:
        """Handle the end of staging, before validation against winning commits."""

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Handle a winning commit about to be checked."""

    def conflict_resolved(self, txn: ObservedTransaction, conflict: ResolvedConflict) -> None:
        """Handle a conflict resolved at row level: same files, different rows."""

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """Handle the moment before the log is written."""

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """Handle the commit: the version is in the log."""

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """Handle the end without a commit, or with an unknown outcome."""

    def observer_at(self, uri: str) -> "TransactionObserver":  # noqa: ARG002
        """Return the observer of what the same transaction does at another table.

        Its failure is told here too: it ends the whole transaction.
        """
        return NO_OBSERVER


NO_OBSERVER = TransactionObserver()


class Observers(TransactionObserver):
    """Several observers, notified in this order."""

    def __init__(self, observers: Sequence[TransactionObserver]) -> None:
        self._observers = tuple(observers)

    def started(self, txn: ObservedTransaction) -> None:
        """Notify all observers of the start."""
        for observer in self._observers:
            observer.started(txn)

    def staged(self, txn: ObservedTransaction) -> None:
        """Pass the event to every observer."""
        for observer in self._observers:
            observer.staged(txn)

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Pass the event to every observer."""
        for observer in self._observers:
            observer.winner_found(txn, winning_version)

    def conflict_resolved(self, txn: ObservedTransaction, conflict: ResolvedConflict) -> None:
        """Notify all observers of a conflict resolved at row level."""
        for observer in self._observers:
            observer.conflict_resolved(txn, conflict)

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """Notify all observers of the moment before the log is written."""
        for observer in self._observers:
            observer.before_commit(txn, attempt_version)

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """Notify all observers of the commit."""
        for observer in self._observers:
            tell_committed(observer, txn, committed_version)

    def observer_at(self, uri: str) -> TransactionObserver:
        """Return the observers of another table."""
        return Observers([observer.observer_at(uri) for observer in self._observers])

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """Notify all observers of the end without a commit."""
        for observer in self._observers:
            observer.failed(txn, error)


def tell_committed(
    observer: TransactionObserver, txn: ObservedTransaction, committed_version: int
) -> None:
    """Notify an observer of a commit; log its errors, since the commit cannot be undone."""
    try:
        observer.committed(txn, committed_version)
    except Exception:  # noqa: BLE001 - observers may raise anything
        _log.exception("An observer failed at version %s, which is committed.", committed_version)


def new_files(txn: ObservedTransaction) -> list[AddFile]:
    """Return the data files a transaction wrote; a new deletion vector is not a new file."""
    return list(file_changes(txn.operation, txn.actions).written)


def count_staged_bytes(txn: ObservedTransaction) -> int:
    """Return the size of the data files a transaction wrote: wasted if it is aborted."""
    return file_changes(txn.operation, txn.actions).bytes_written
