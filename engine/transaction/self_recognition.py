"""A transaction finds its own earlier commit, so that a job that runs twice writes once."""

from engine.errors import CommitOutcomeUnknownError, FileMissingError
from engine.log.commits import Commit, read_commit
from engine.storage.base import Store


def is_own(commit: Commit, txn_id: str) -> bool:
    """Whether a commit is that of the transaction with this id."""
    return commit.commit_info is not None and commit.commit_info.txn_id == txn_id


def find_own_commit(store: Store, txn_id: str, after_version: int, up_to: int) -> Commit | None:
    """The commit of a transaction among the versions after one, up to and with another.

    Raises:
        CommitOutcomeUnknownError: one of those versions has been cleaned away, so that nobody can
            say whether the transaction landed.
    """
    for version in range(up_to, after_version, -1):
        commit = _read(store, version)
        if is_own(commit, txn_id):
            return commit
    return None


def _read(store: Store, version: int) -> Commit:
    try:
        return read_commit(store, version)
    except FileMissingError as gone:
        what = (
            f"Whether this transaction landed in {store.root} cannot be known: version {version},"
            " which may be its commit, has been cleaned away."
        )
        remedy = "Check the table, and start a new job if the change is not there."
        raise CommitOutcomeUnknownError(what, remedy) from gone
