"""Files that RESTORE brings back stay there until the commit that names them.

A VACUUM that has begun does not know of that commit, and may be deleting what it names. One that
begins after it reads it. So it is looked for right before each attempt to write the log: whoever
takes that version first is met by the next attempt.
"""

from collections.abc import Collection, Iterator

from engine.actions.commit_info import CommitInfo
from engine.errors import DataFileError, RequestError
from engine.log.history import iter_history
from engine.storage.base import Store
from engine.transaction.observer import NO_OBSERVER, ObservedTransaction, TransactionObserver
from engine.transaction.outcome import AbsorbedConflict

LONGEST_VACUUM_MS = 24 * 3600 * 1000
_COMMITS = 1000
_BEGAN, _ENDED = "VACUUM START", "VACUUM END"


class RestoredFiles(TransactionObserver):
    """Stops a RESTORE whose files may go, and tells another observer everything else."""

    def __init__(
        self, store: Store, paths: Collection[str], now_ms: int, inner: TransactionObserver | None
    ) -> None:
        self._store, self._paths, self._now_ms = store, paths, now_ms
        self._inner = inner or NO_OBSERVER

    def staged(self, txn: ObservedTransaction) -> None:
        """Everything is staged."""
        self._inner.staged(txn)

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Another commit landed first."""
        self._inner.winner_found(txn, winning_version)

    def absorbed(self, txn: ObservedTransaction, conflict: AbsorbedConflict) -> None:
        """Rows settled a conflict."""
        self._inner.absorbed(txn, conflict)

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """The log is about to be written.

        Raises:
            RequestError: a VACUUM has begun and has not said that it ended.
            DataFileError: a file is gone.
        """
        check_no_vacuum(self._store, self._now_ms)
        check_present(self._store, self._paths)
        self._inner.before_commit(txn, attempt_version)

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """The version is in the log."""
        self._inner.committed(txn, committed_version)

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """The transaction ended without a commit."""
        self._inner.failed(txn, error)


def check_no_vacuum(store: Store, now_ms: int) -> None:
    """Make sure that no VACUUM may be deleting files of the table.

    Raises:
        RequestError: which one.
    """
    latest = next(_vacuums(store, now_ms - LONGEST_VACUUM_MS), None)
    if latest is not None and latest.operation == _BEGAN:
        what = (
            f"A VACUUM of {store.root} began at version {latest.version} and has not said that it"
            " ended: it may be deleting files that would come back. Nothing was written."
        )
        remedy = (
            "Wait for it. If it was killed, VACUUM … RETAIN 87600 HOURS, which deletes nothing that"
            " is younger than ten years, says so."
        )
        raise RequestError(what, remedy)


def check_present(store: Store, paths: Collection[str]) -> None:
    """Make sure that files are there.

    Raises:
        DataFileError: one is not.
    """
    missing = [path for path in paths if store.stat(path) is None]
    if missing:
        msg = (
            f"The version of {store.root} that was asked for cannot be restored:"
            f" {len(missing)} of its files are gone, {missing[0]} among them."
        )
        raise DataFileError(msg, "Restore a later version, or the files from a backup.")


def _vacuums(store: Store, since_ms: int) -> Iterator[CommitInfo]:
    """What VACUUM said of its beginnings and ends since a time, the newest first."""
    for info in iter_history(store, _COMMITS):
        if (info.timestamp or 0) < since_ms:
            return
        if info.operation in {_BEGAN, _ENDED}:
            yield info
