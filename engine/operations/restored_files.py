"""Guards for files a commit restores or shares: they must exist until the commit names them.

A running VACUUM does not know the commit and may be deleting its files; a later VACUUM reads the
commit. Each attempt to write the log therefore checks first for a running VACUUM; one that commits
in between is checked by the next attempt.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from engine.actions.commit_info import VACUUM_END, VACUUM_START, CommitInfo
from engine.actions.files import AddFile
from engine.clock import surely_ms
from engine.deletion_vectors.files import locate
from engine.errors import DataFileMissingError, PathOutsideRootError, RequestError
from engine.log.history import iter_told
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.storage.presence import find_missing_files
from engine.storage.uri import ResolvedPath, open_beside, resolve_log_path
from engine.table import DeltaTable
from engine.transaction.observer import NO_OBSERVER, ObservedTransaction, TransactionObserver
from engine.transaction.pending_commit import ResolvedConflict

LONGEST_VACUUM_MS = 24 * 3600 * 1000
_COMMITS = 1000


class _Guard(TransactionObserver):
    """Checks files before each attempt, and forwards every phase to another observer."""

    def __init__(self, now_ms: int, inner: TransactionObserver | None) -> None:
        self._now_ms = now_ms
        self._inner = inner or NO_OBSERVER

    def check(self) -> None:
        """Raise an error if a file of the commit may be deleted."""
        raise NotImplementedError

    def staged(self, txn: ObservedTransaction) -> None:
        """Pass the event on."""
        self._inner.staged(txn)

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Pass the event on: another commit landed first."""
        self._inner.winner_found(txn, winning_version)

    def conflict_resolved(self, txn: ObservedTransaction, conflict: ResolvedConflict) -> None:
        """Forward the event of a conflict resolved at row level."""
        self._inner.conflict_resolved(txn, conflict)

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """Check the files right before the log is written.

        Raises:
            RequestError: a VACUUM has begun and not reported its end.
            DataFileMissingError: a file is gone.
        """
        self.check()
        self._inner.before_commit(txn, attempt_version)

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:
        """Forward the event of a commit."""
        self._inner.committed(txn, committed_version)

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """Forward the event of a failed transaction."""
        self._inner.failed(txn, error)


class RestoredFiles(_Guard):
    """Stops a RESTORE with files at risk of deletion."""

    def __init__(
        self,
        snapshot: Snapshot,
        adds: Sequence[AddFile],
        now_ms: int,
        inner: TransactionObserver | None,
    ) -> None:
        super().__init__(now_ms, inner)
        self._snapshot, self._adds = snapshot, adds

    def check(self) -> None:
        """Check that the restored files exist and that no VACUUM is running."""
        check_no_vacuum(self._snapshot.store, self._now_ms)
        check_present(self._snapshot, self._adds)


class SharedFiles(_Guard):
    """Stops a shallow clone whose files its source no longer has, if they may be deleted."""

    def __init__(
        self,
        owner: DeltaTable,
        snapshot: Snapshot,
        now_ms: int,
        inner: TransactionObserver | None,
    ) -> None:
        super().__init__(now_ms, inner)
        self._owner, self._snapshot = owner, snapshot

    def check(self) -> None:
        """Check that the cloned files exist and will not be deleted."""
        latest = self._owner.snapshot()
        if latest is self._snapshot:
            return
        live = latest.state.file_keys
        left = [add for add in self._snapshot.add_files() if add.key not in live]
        if left:
            check_no_vacuum(self._owner.store, self._now_ms)
            check_present(self._snapshot, left)


def check_no_vacuum(store: Store, now_ms: int) -> None:
    """Raise an error if a VACUUM may be deleting files of the table.

    Raises:
        RequestError: names the running VACUUM.
    """
    latest = next(_vacuums(store, now_ms - surely_ms(LONGEST_VACUUM_MS)), None)
    if latest is not None and latest.operation == VACUUM_START:
        what = (
            f"A VACUUM of {store.root} started at version {latest.version} and has not "
            "recorded its end. It may be deleting files that this commit would add. Nothing "
            "was written."
        )
        remedy = (
            "Wait until it ends. If it was killed, run VACUUM … RETAIN 87600 HOURS, which "
            "records an end and deletes only files older than ten years."
        )
        raise RequestError(what, remedy)


def check_present(snapshot: Snapshot, adds: Iterable[AddFile]) -> None:
    """Raise an error if a file of a version, or its deletion vector, is missing.

    Raises:
        DataFileMissingError: one is missing.
    """
    paths_at: dict[ResolvedPath, set[str]] = {}
    for add in adds:
        for place in _places(snapshot, add):
            paths_at.setdefault(replace(place, path=""), set()).add(place.path)
    missing: list[str] = []
    for place, paths in paths_at.items():
        store = snapshot.store if place.inside else open_beside(snapshot.store, place.root)
        missing += find_missing_files(store, paths, snapshot.file_count)
    if missing:
        msg = (
            f"Version {snapshot.version} of {snapshot.table_uri} can no longer be restored: "
            f"{len(missing)} of its files are missing, including {missing[0]}."
        )
        raise DataFileMissingError(
            msg, "Choose a later version, or restore the files from a backup."
        )


def _places(snapshot: Snapshot, add: AddFile) -> Iterator[ResolvedPath]:
    """Yield the locations of a file and its vector, except outside the allowed roots."""
    root, allowed_roots = snapshot.table_uri, snapshot.allowed_roots
    with suppress(PathOutsideRootError):
        yield resolve_log_path(root, add.path, allowed_roots)
        if add.deletion_vector is not None and add.deletion_vector.storage_type != "i":
            yield locate(root, add.deletion_vector, allowed_roots)


def _vacuums(store: Store, since_ms: int) -> Iterator[CommitInfo]:
    """Yield the start and end records of VACUUMs since a time, latest first."""
    for info in iter_told(store, _COMMITS):
        if (info.timestamp or 0) < since_ms:
            return
        if info.operation in {VACUUM_START, VACUUM_END}:
            yield info
