"""Early checks of winning commits: a transaction certain to be aborted can stop."""

from dataclasses import dataclass

from engine.conflicts.checker import CHECKS, FILE_RULES, find_conflict
from engine.conflicts.overlap import Overlap
from engine.conflicts.rebase import PendingVectors
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictError
from engine.storage.base import Store
from engine.transaction.log_tail import is_own, iter_newer
from engine.transaction.pending_commit import PendingCommit
from engine.transaction.validation import Resolution, RowResolver, validate

_OF_THE_TABLE = tuple(check for check in CHECKS if check.rule not in FILE_RULES)


class _UndecidedError(Exception):
    """Rows were not compared to the end. Later there may be the time for it."""


@dataclass(frozen=True, slots=True)
class _DecidedResolver:
    """Resolves like the commit, except that a spent budget or a failed read is no conflict."""

    rows: RowResolver

    def resolve(self, overlap: Overlap, pending: PendingVectors) -> Resolution:
        resolution = self.rows.resolve(overlap, pending)
        if resolution.settled.evidence.is_partial:
            raise _UndecidedError
        return resolution

    def write_vectors(self, pending_commit: PendingCommit) -> PendingCommit:
        return self.rows.write_vectors(pending_commit)


def find_early_conflict(
    store: Store, pending_commit: PendingCommit, rows: RowResolver | None
) -> ConflictError | None:
    """Return the first certain conflict with a winning commit so far, or None.

    A transaction already in the log has none. While nothing is staged, the check stops at the first
    winning commit that touched files: it may become a conflict.

    Raises:
        EngineError: the log is unreadable.
    """
    decided = None if rows is None else _DecidedResolver(rows)
    for commit in iter_newer(store, pending_commit.validated_version):
        if is_own(commit, pending_commit.provenance.txn_id):
            return None
        winner = WinningCommit.from_commit(commit)
        if not pending_commit.staged:
            overlap = Overlap(pending_commit.current, winner, attempted_version=winner.version)
            conflict = find_conflict(overlap, _OF_THE_TABLE)
            if conflict is not None or winner.adds or winner.removes:
                return conflict
            continue
        try:
            pending_commit = validate(pending_commit, winner, decided)
        except ConflictError as conflict:
            return conflict
        except _UndecidedError:
            return None
    return None
