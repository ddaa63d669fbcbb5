"""Checks winning commits before the commit: a transaction that is bound to be aborted need not go on."""

from engine.conflicts.checker import CHECKS, FILE_RULES, find_conflict
from engine.conflicts.overlap import Overlap
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictError
from engine.storage.base import Store
from engine.transaction.log_tail import is_own, iter_newer
from engine.transaction.pending_commit import PendingCommit
from engine.transaction.validation import RowResolver, validate

_OF_THE_TABLE = tuple(check for check in CHECKS if check.rule not in FILE_RULES)


def find_early_conflict(
    store: Store, pending_commit: PendingCommit, rows: RowResolver | None
) -> ConflictError | None:
    """The first conflict with a winning commit so far, None where there is none, or where it is in the log itself.

    Raises:
        EngineError: the log cannot be read.
    """
    is_staged = bool(pending_commit.staged)
    for commit in iter_newer(store, pending_commit.validated_version):
        if is_own(commit, pending_commit.provenance.txn_id):
            return None
        winner = WinningCommit.of(commit)
        if is_staged:
            try:
                pending_commit = validate(pending_commit, winner, rows)
            except ConflictError as conflict:
                return conflict
        else:
            overlap = Overlap(pending_commit.current, winner, attempted_version=winner.version)
            conflict_of_table = find_conflict(overlap, _OF_THE_TABLE)
            if conflict_of_table is not None:
                return conflict_of_table
    return None
