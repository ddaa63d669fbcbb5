"""The commit loop: the one place where a version of a table comes to be.

    attempt ─ taken? ─ every winner since the last one checked, in order:
        is it myself?  done, as of then
        else           check it, rebase over it
    attempt again

Each outcome has one exit. An outcome that is not known tries the *same* version again: if the first
try landed, the next look at the log finds it there under this transaction's own id.
"""

from dataclasses import dataclass

from engine.actions.codec import encode
from engine.clock import Clock
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import (
    CommitOutcomeUnknownError,
    EngineError,
    FileExistsAlreadyError,
    LogCleanedError,
    MalformedLogError,
    MaxCommitRetriesError,
    StorageError,
    StorageOutcomeUnknownError,
)
from engine.log.commits import Commit
from engine.log.paths import commit_path
from engine.log.replay import TableState
from engine.storage.base import Store
from engine.transaction.contender import Contender
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from engine.transaction.outcome import CommitLimits, CommitOutcome
from engine.transaction.reconciliation import Attempt, reconcile
from engine.transaction.self_recognition import is_own
from engine.transaction.standing import check_in_place, check_landed, iter_newer
from engine.transaction.validation import RowResolver, validate

_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Committer:
    """What a commit needs of the world: the log, the time, whoever watches, and how rows are read.

    `read` is the version that the transaction read, None where it creates the table.
    """

    store: Store
    clock: Clock
    observer: TransactionObserver
    limits: CommitLimits
    rows: RowResolver | None
    read: TableState | None = None

    def commit(self, txn: ObservedTransaction, contender: Contender) -> CommitOutcome:
        """Take a transaction into the log.

        Raises:
            ConflictError: a winner made it unserializable. Nothing was written.
            LogCleanedError: the winners can no longer be read. Nothing was written.
            TableReplacedError: another table is in the place of the one read. Nothing was written.
            StorageError: the store failed before the log was written. Nothing was written.
            MaxCommitRetriesError: it lost the race too often. Nothing was written.
            CommitOutcomeUnknownError: the store would not say whether the commit landed.
        """
        doubts = 0
        for attempts in range(1, self.limits.attempts + 1):
            try:
                own, ahead = self._meet_winners(txn, contender)
                if own is not None:
                    return self._recognise(own, ahead, attempts, landed_now=bool(doubts))
                if ahead is not contender:
                    contender, doubts = ahead, 0
                if contender.is_empty:
                    return _nothing_to_commit(contender, attempts)
                attempt = self._prepare(contender)
                if not doubts:
                    self._check_in_place()
                    self.observer.before_commit(txn, attempt.version)
                if self._put(attempt):
                    return _landed(attempt, contender, attempts)
            except (StorageError, LogCleanedError, MalformedLogError) as error:
                doubts = self._doubt_again(doubts, error, contender)
        raise _given_up(contender, self.limits.attempts, in_doubt=bool(doubts))

    def _meet_winners(
        self, txn: ObservedTransaction, contender: Contender
    ) -> tuple[Commit | None, Contender]:
        """Every winner since the last one checked, in order, unless one is the contender itself."""
        for commit in iter_newer(self.store, contender.validated_version):
            if is_own(commit, txn.txn_id):
                return commit, contender
            self.observer.winner_found(txn, commit.version)
            passed = validate(contender, WinningCommit.of(commit), self.rows)
            for conflict in passed.absorbed[len(contender.absorbed) :]:
                self.observer.absorbed(txn, conflict)
            contender = passed
        return None, contender

    def _recognise(
        self, own: Commit, contender: Contender, attempts: int, *, landed_now: bool
    ) -> CommitOutcome:
        """Its own commit, found in the log; one that has just been written is looked at like any."""
        if landed_now:
            check_landed(self.store, own.version)
        return _recognised(own, contender, attempts)

    def _prepare(self, contender: Contender) -> Attempt:
        """The next version's content; the files that rebasing called for are written by now."""
        try:
            named = self.rows.write_vectors(contender) if self.rows else contender
        except StorageOutcomeUnknownError as error:
            what = "The merged deletion vectors could not be written. Nothing was committed."
            raise StorageError(what, "Run it again.") from error
        return reconcile(named, self.clock.now_ms())

    def _check_in_place(self) -> None:
        if self.read is not None:
            check_in_place(self.store, self.read)

    def _put(self, attempt: Attempt) -> bool:
        """Write the version; False if another took it first."""
        lines = "".join(f"{encode(each)}\n" for each in attempt.actions)
        try:
            self.store.put_if_absent(commit_path(attempt.version), lines.encode())
        except FileExistsAlreadyError:
            return False
        try:
            check_landed(self.store, attempt.version)
        except StorageError as error:
            what = f"Version {attempt.version} was written, but could not be looked at."
            raise StorageOutcomeUnknownError(what) from error
        return True

    def _doubt_again(self, doubts: int, error: EngineError, contender: Contender) -> int:
        """Count a failure that leaves the outcome open, and wait; any other one is final."""
        if not doubts and not isinstance(error, StorageOutcomeUnknownError):
            raise error
        if doubts >= self.limits.unknown_outcomes:
            raise _unknown(contender) from error
        self.clock.pause(_FIRST_PAUSE_S * 2**doubts)
        return doubts + 1


def _landed(attempt: Attempt, contender: Contender, attempts: int) -> CommitOutcome:
    return CommitOutcome(
        attempt.version,
        attempt.timestamp_ms,
        attempts,
        contender.absorbed,
        metrics=attempt.metrics,
    )


def _recognised(own: Commit, contender: Contender, attempts: int) -> CommitOutcome:
    return CommitOutcome(
        own.version, own.timestamp_ms, attempts, contender.absorbed, recognised=True
    )


def _nothing_to_commit(contender: Contender, attempts: int) -> CommitOutcome:
    return CommitOutcome(
        contender.validated_version,
        contender.timestamp_ms,
        attempts,
        contender.absorbed,
        committed=False,
    )


def _unknown(contender: Contender) -> CommitOutcomeUnknownError:
    what = (
        f"Whether version {contender.validated_version + 1} of {contender.after.table} was"
        " committed is not known: the store failed, and did not say what became of the write."
    )
    remedy = f"Look for transaction {contender.provenance.txn_id} in the history before retrying."
    return CommitOutcomeUnknownError(what, remedy)


def _given_up(contender: Contender, attempts: int, *, in_doubt: bool) -> EngineError:
    if in_doubt:
        return _unknown(contender)
    what = (
        f"This {contender.current.operation} lost the race for a version of"
        f" {contender.after.table} {attempts} times. Nothing was written."
    )
    return MaxCommitRetriesError(what, "Run it when fewer writers are busy.")
