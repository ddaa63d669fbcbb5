"""The commit loop: the only place that creates a version of a table.

    attempt ─ taken? ─ every winning commit since the last one checked, in order:
        is it myself?  done, as of then
        else           check it, rebase over it
    attempt again

Each outcome has one exit. After an unknown outcome the *same* version is tried again: if the first
try landed, the next read of the log finds it there under this transaction's own id.

Threads of one process that commit to one table take turns, because each version needs the one
before it. Of 32 threads racing for it, 31 waste their preparation each time; the thread with the
turn checks the commits before it, and lands. Processes race.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic

from engine.actions.codec import encode
from engine.actions.files import AddFile
from engine.clock import Clock
from engine.conflicts.decide.row_access import physical_rows
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import (
    CommitOutcomeUnknownError,
    DataFileError,
    DataFileMissingError,
    EngineError,
    FileExistsAlreadyError,
    LogCleanedError,
    MalformedLogError,
    MaxCommitRetriesError,
    PathOutsideRootError,
    StorageError,
    StorageOutcomeUnknownError,
)
from engine.log.commits import LogCommit
from engine.log.paths import commit_path
from engine.log.replay import TableState
from engine.log.tip import Tip
from engine.snapshot.data_files import add_row_counts
from engine.storage.base import Store
from engine.transaction.log_tail import check_in_place, check_landed, is_own, iter_newer
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from engine.transaction.pending_commit import (
    CommitLimits,
    CommitOutcome,
    PendingCommit,
    last_row_id,
)
from engine.transaction.reconciliation import Attempt, rebase_metrics, reconcile
from engine.transaction.staged_files import (
    StagedFileCheck,
    StagedFilesGoneError,
    VacuumUnderWayError,
    pauses_s,
)
from engine.transaction.validation import RowResolver, validate

_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Committer:
    """The environment of a commit: log, clock, observer, limits, staged files and rows.

    `read` is the version the transaction read, None if it creates the table. `count_rows` counts
    the rows of a file by its footer.
    """

    store: Store
    clock: Clock
    observer: TransactionObserver
    limits: CommitLimits
    files: StagedFileCheck
    rows: RowResolver | None
    read: TableState | None
    count_rows: Callable[[str], int]

    def commit(self, txn: ObservedTransaction, pending_commit: PendingCommit) -> CommitOutcome:
        """Commit a transaction to the log.

        Raises:
            ConflictError: a winning commit made it unserializable. Nothing was written.
            LogCleanedError: the winning commits are no longer readable. Nothing was written.
            TableReplacedError: another table replaced the one read. Nothing was written.
            StagedFilesGoneError: added files have been deleted. Nothing was written.
            VacuumUnderWayError: a VACUUM may delete added files. Nothing was written.
            StorageError: the store failed before the log was written. Nothing was written.
            MaxCommitRetriesError: other commits came first too often. Nothing was written.
            CommitOutcomeUnknownError: the store did not report whether the commit landed.
            DataFileError: a staged file is unreadable whose rows need ids.
        """
        doubts, before = 0, None
        pending_commit = self._count_numbered_rows(pending_commit)
        for attempts in range(1, self.limits.attempts + 1):
            try:
                with Turn(self.store.root) as turn:
                    own, rebased = self._check_winners_in_turn(txn, pending_commit, turn)
                    if own is not None:
                        return self._recognize(own, rebased, attempts, landed_now=bool(doubts))
                    if rebased is not pending_commit:
                        pending_commit, doubts = rebased, 0
                    if pending_commit.is_empty:
                        return _nothing_to_commit(pending_commit, attempts)
                    attempt = self._prepare(pending_commit)
                    if doubts:
                        self._check_files_again(attempt, pending_commit)
                    else:
                        self.observer.before_commit(txn, attempt.version)
                        before = self._check_in_place(attempt, pending_commit)
                    if self._put(attempt, before):
                        return _build_outcome(attempt, pending_commit, attempts)
            except (StorageError, LogCleanedError, MalformedLogError) as error:
                doubts = self._doubt_again(doubts, error, pending_commit)
        raise _max_retries_error(pending_commit, self.limits.attempts, in_doubt=bool(doubts))

    def _check_winners_in_turn(
        self, txn: ObservedTransaction, pending_commit: PendingCommit, turn: "Turn"
    ) -> tuple[LogCommit | None, PendingCommit]:
        """Check winning commits and VACUUMs in turn, including commits landed while waiting."""
        own, pending_commit = self._check_winners_and_vacuums(txn, pending_commit)
        if own is None and turn.take():
            own, pending_commit = self._check_winners_and_vacuums(txn, pending_commit)
        return own, pending_commit

    def _check_winners_and_vacuums(
        self, txn: ObservedTransaction, pending_commit: PendingCommit
    ) -> tuple[LogCommit | None, PendingCommit]:
        """Check winning commits, and wait for VACUUMs that may delete staged files."""
        pauses = pauses_s()
        while True:
            own, pending_commit = self._check_winners(txn, pending_commit)
            version = (
                None if own else self.files.find_conflicting_vacuum(pending_commit.current.actions)
            )
            if version is None:
                return own, pending_commit
            pause = next(pauses, None)
            if pause is None:
                raise VacuumUnderWayError(pending_commit.after.table, version)
            self.clock.pause(pause)

    def _check_winners(
        self, txn: ObservedTransaction, pending_commit: PendingCommit
    ) -> tuple[LogCommit | None, PendingCommit]:
        """Check the winning commits since the last check, in order, until one is the pending commit itself."""
        for commit in iter_newer(self.store, pending_commit.validated_version):
            if is_own(commit, txn.txn_id):
                return commit, pending_commit
            self.observer.winner_found(txn, commit.version)
            passed = validate(pending_commit, WinningCommit.from_commit(commit), self.rows)
            for conflict in passed.resolved[len(pending_commit.resolved) :]:
                self.observer.conflict_resolved(txn, conflict)
            pending_commit = replace(passed, winner_tip=Tip.from_commit(commit))
            self.files.note_commit(commit)
        return None, pending_commit

    def _recognize(
        self, own: LogCommit, pending_commit: PendingCommit, attempts: int, *, landed_now: bool
    ) -> CommitOutcome:
        """Return the outcome of its own commit in the log, checked first if just written."""
        if landed_now:
            check_landed(self.store, own.version)
        return _build_recognized_outcome(own, pending_commit, attempts)

    def _prepare(self, pending_commit: PendingCommit) -> Attempt:
        """Prepare the next version's actions; write the files required by rebasing."""
        try:
            named = self.rows.write_vectors(pending_commit) if self.rows else pending_commit
        except StorageOutcomeUnknownError as error:
            what = "The merged deletion vectors could not be written. Nothing was committed."
            raise StorageError(what, "Run it again.") from error
        return reconcile(self._assign_free_row_ids(named), self.clock.now_ms())

    def _count_numbered_rows(self, pending_commit: PendingCommit) -> PendingCommit:
        """Count the rows of new files with new row ids."""
        files = pending_commit.newly_numbered
        if not files:
            return pending_commit
        counted = {add.path: add for add in add_row_counts(files, self._count_staged_rows)}
        current = pending_commit.current
        actions = tuple(
            counted.get(action.path, action) if isinstance(action, AddFile) else action
            for action in current.actions
        )
        return replace(pending_commit, current=current.restage(actions))

    def _count_staged_rows(self, add: AddFile) -> int | None:
        """Count the rows of a staged file; use its claim if it is inaccessible or holds no rows.

        No reader finds rows in a damaged file, so its claim can give no row id twice. The check
        before each attempt refuses missing files, unless this transaction has landed.

        Raises:
            DataFileError, PathOutsideRootError: it cannot be read, and has no claim.
        """
        claimed = physical_rows(add)
        try:
            return self.count_rows(add.path)
        except DataFileMissingError:
            return claimed
        except (DataFileError, PathOutsideRootError):
            if claimed is None:
                raise
            return claimed

    def _assign_free_row_ids(self, pending_commit: PendingCommit) -> PendingCommit:
        """Return the pending commit with row ids above those in use, counted from the file itself.

        If the file with the highest ids is unreadable, the log's count is used.
        """
        last = pending_commit.last_numbered
        if last is None or not pending_commit.gives_new_row_ids:
            return pending_commit
        with suppress(EngineError):
            used = last_row_id(last, self.count_rows(last.path))
            mark = max(pending_commit.row_id_high_water_mark, used)
            return replace(pending_commit, row_id_high_water_mark=mark)
        return pending_commit

    def _check_in_place(self, attempt: Attempt, pending_commit: PendingCommit) -> Tip | None:
        """Check staged files and the preceding version one last time before the write."""
        read, winner = self.read, pending_commit.winner_tip
        with self.files.check_presence(attempt.actions):
            return None if read is None else check_in_place(self.store, read, winner)

    def _check_files_again(self, attempt: Attempt, pending_commit: PendingCommit) -> None:
        """Refuse to write a version again if its files are gone: it may have landed before."""
        try:
            with self.files.check_presence(attempt.actions):
                return
        except StagedFilesGoneError as error:
            raise _outcome_unknown_error(pending_commit) from error

    def _put(self, attempt: Attempt, before: Tip | None) -> bool:
        """Write the version; False if another took it first."""
        lines = "".join(f"{encode(action)}\n" for action in attempt.actions)
        try:
            self.store.put_if_absent(commit_path(attempt.version), lines.encode())
        except FileExistsAlreadyError:
            return False
        try:
            check_landed(self.store, attempt.version, before)
        except StorageError as error:
            what = f"Version {attempt.version} was written, but could not be read back."
            raise StorageOutcomeUnknownError(what) from error
        return True

    def _doubt_again(self, doubts: int, error: EngineError, pending_commit: PendingCommit) -> int:
        """Wait after a failure with unknown outcome, and count it; raise any other failure."""
        if not doubts and not isinstance(error, StorageOutcomeUnknownError):
            raise error
        if doubts >= self.limits.unknown_outcomes:
            raise _outcome_unknown_error(pending_commit) from error
        self.clock.pause(_FIRST_PAUSE_S * 2**doubts)
        return doubts + 1


def _build_outcome(attempt: Attempt, pending_commit: PendingCommit, attempts: int) -> CommitOutcome:
    return CommitOutcome(
        attempt.version,
        attempt.timestamp_ms,
        attempts,
        pending_commit.resolved,
        metrics=attempt.metrics,
    )


def _build_recognized_outcome(
    own: LogCommit, pending_commit: PendingCommit, attempts: int
) -> CommitOutcome:
    return CommitOutcome(
        own.version, own.timestamp_ms, attempts, pending_commit.resolved, recognized=True
    )


def _nothing_to_commit(pending_commit: PendingCommit, attempts: int) -> CommitOutcome:
    return CommitOutcome(
        pending_commit.validated_version,
        pending_commit.timestamp_ms,
        attempts,
        pending_commit.resolved,
        committed=False,
        metrics=rebase_metrics(pending_commit),
    )


def _outcome_unknown_error(pending_commit: PendingCommit) -> CommitOutcomeUnknownError:
    what = (
        f"It is not known whether version {pending_commit.validated_version + 1} of "
        f"{pending_commit.after.table} was committed: the store failed without reporting the "
        "result of the write."
    )
    remedy = (
        f"Look for transaction {pending_commit.provenance.txn_id} in the history before retrying."
    )
    return CommitOutcomeUnknownError(what, remedy)


def _max_retries_error(
    pending_commit: PendingCommit, attempts: int, *, in_doubt: bool
) -> EngineError:
    if in_doubt:
        return _outcome_unknown_error(pending_commit)
    what = (
        f"Other commits took the version that this {pending_commit.current.operation} of "
        f"{pending_commit.after.table} tried to write, {attempts} times in a row. Nothing was "
        "written."
    )
    return MaxCommitRetriesError(what, "Run it when fewer writers are active.")


_LONGEST_WAIT_S = 1.0
"""Time limit of a wait: two threads waiting for each other then continue and race."""
_LONGEST_TURN_S = 60.0
"""Time limit of a turn: an interrupted thread may never leave its turn."""


class _Queue:
    """The threads waiting for a turn at a table.

    `left` counts the finished turns, `since_s` is the time the last one began or ended.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.left = 0
        self.since_s = monotonic()


_QUEUES = [_Queue() for _ in range(256)]


class Turn:
    """The turn at one table: taken when it is needed, and left in the end."""

    def __init__(self, root: str) -> None:
        self._place = hash(root) % len(_QUEUES)
        self._queue = _QUEUES[self._place]
        self._left_before = self._queue.left
        self._is_held = False

    def take(self) -> bool:
        """Take the turn; return whether another thread left it meanwhile and may have committed."""
        self._is_held = self._queue.lock.acquire(timeout=_LONGEST_WAIT_S)
        if self._is_held:
            self._queue.since_s = monotonic()
        elif monotonic() - self._queue.since_s > _LONGEST_TURN_S:
            _QUEUES[self._place] = _Queue()
        return not self._is_held or self._queue.left != self._left_before

    def __enter__(self) -> "Turn":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._is_held:
            self._queue.left += 1
            self._queue.since_s = monotonic()
            self._queue.lock.release()


def _renew_locks() -> None:
    """Reset the locks in a forked child, which lacks the threads that held them."""
    _QUEUES[:] = [_Queue() for _ in _QUEUES]


os.register_at_fork(after_in_child=_renew_locks)
