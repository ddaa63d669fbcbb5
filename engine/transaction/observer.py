"""The named phases of a transaction, for tests that interleave and for metrics that count."""

from typing import Protocol

from engine.transaction.outcome import AbsorbedConflict


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


class TransactionObserver:
    """Is told each phase as it begins; every method does nothing unless overridden.

    `before_commit` comes after all checks against winners and before the log is written: what it
    raises stops the transaction with nothing written. However long it takes, the table and the staged
    files are looked at after it. The phases after it must not raise.
    """

    def started(self, txn: ObservedTransaction) -> None:
        """The read version is fixed."""

    def staged(self, txn: ObservedTransaction) -> None:
        """Everything is staged; validation against winners begins."""

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Another commit landed first and is about to be checked."""

    def absorbed(self, txn: ObservedTransaction, conflict: AbsorbedConflict) -> None:
        """The two sides touched the same files, but not the same rows."""

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """The log is about to be written."""

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """The version is in the log."""

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """The transaction ended without a commit, or without knowing of one."""


NO_OBSERVER = TransactionObserver()
