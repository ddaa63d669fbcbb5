"""The named phases of a transaction, for tests that interleave and for metrics that count."""

import logging
from collections.abc import Sequence
from typing import Protocol

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.actions.written_files import file_changes
from engine.transaction.outcome import ResolvedConflict

_log = logging.getLogger(__name__)


class ObservedTransaction(Protocol):
    """What an observer may ask of a transaction."""

    @property
    def read_version(self) -> int:
        """The version it reads, -1 where it creates the table."""
        ...

    @property
    def txn_id(self) -> str:
        """The id that its commit carries."""
        ...

    @property
    def operation(self) -> str:
        """What its commit is called; "" before it is asked to commit."""
        ...

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is staged so far."""
        ...


class TransactionObserver:
    """Is told each phase as it begins; every method does nothing unless overridden.

    `before_commit` comes after all checks against winning commits and before the log is written: what it
    raises stops the transaction with nothing written. However long it takes, the table and the staged
    files are examined after it. What `committed` raises is logged: the version stands.
    """

    def started(self, txn: ObservedTransaction) -> None:
        """The read version is fixed."""

    def staged(self, txn: ObservedTransaction) -> None:
        """Everything is staged; validation against winning commits begins."""

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Another commit landed first and is about to be checked."""

    def conflict_resolved(self, txn: ObservedTransaction, conflict: ResolvedConflict) -> None:
        """A conflict was resolved: both sides touched the same files, but not the same rows."""

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """The log is about to be written."""

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """The version is in the log."""

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """The transaction ended without a commit, or without knowing of one."""


NO_OBSERVER = TransactionObserver()


class Observers(TransactionObserver):
    """Several observers, told in this order."""

    def __init__(self, observers: Sequence[TransactionObserver]) -> None:
        self._observers = tuple(observers)

    def started(self, txn: ObservedTransaction) -> None:
        """The read version is fixed."""
        for observer in self._observers:
            observer.started(txn)

    def staged(self, txn: ObservedTransaction) -> None:
        """Everything is staged; validation against winning commits begins."""
        for observer in self._observers:
            observer.staged(txn)

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Another commit landed first and is about to be checked."""
        for observer in self._observers:
            observer.winner_found(txn, winning_version)

    def conflict_resolved(self, txn: ObservedTransaction, conflict: ResolvedConflict) -> None:
        """A conflict was resolved: both sides touched the same files, but not the same rows."""
        for observer in self._observers:
            observer.conflict_resolved(txn, conflict)

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """The log is about to be written."""
        for observer in self._observers:
            observer.before_commit(txn, attempt_version)

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """The version is in the log."""
        for observer in self._observers:
            tell_committed(observer, txn, committed_version)

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """The transaction ended without a commit, or without knowing of one."""
        for observer in self._observers:
            observer.failed(txn, error)


def tell_committed(
    observer: TransactionObserver, txn: ObservedTransaction, committed_version: int
) -> None:
    """Tell an observer of a commit. An error of its own is not the commit's, which nobody may undo."""
    try:
        observer.committed(txn, committed_version)
    except Exception:  # noqa: BLE001 - an observer may be anybody's
        _log.exception("An observer failed at version %s, which is committed.", committed_version)


def new_files(txn: ObservedTransaction) -> list[AddFile]:
    """The data files that a transaction wrote; a new deletion vector is no new file."""
    return list(file_changes(txn.operation, txn.actions).written)


def count_staged_bytes(txn: ObservedTransaction) -> int:
    """The size of the data files that a transaction wrote: wasted if it is aborted."""
    return file_changes(txn.operation, txn.actions).bytes_written
