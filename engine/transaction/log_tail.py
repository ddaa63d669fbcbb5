"""The log tail: commits after a version, a transaction's own commit, and deleted versions.

Log cleanup deletes everything before a checkpoint, oldest version first. So while a version's
commit exists without a later checkpoint, a missing successor means the version is the latest.
Otherwise the log is listed: a put-if-absent into a gap left by cleanup would succeed and be lost.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from engine.errors import (
    CommitOutcomeUnknownError,
    FileMissingError,
    LogCleanedError,
    LogGapError,
    TableNotFoundError,
    TableReplacedError,
    VersionNotFoundError,
)
from engine.log.commits import LogCommit, list_versions, read_commit
from engine.log.paths import commit_path
from engine.log.replay import TableState, load_state, load_table_state
from engine.log.segment import STATES, LogFile, is_latest, list_log_files, newer_segment
from engine.log.tip import Tip, is_another_log, is_same_log
from engine.storage.base import Store
from engine.storage.presence import read_ahead

_BACKLOG = 4


def iter_newer(store: Store, version: int) -> Iterator[LogCommit]:
    """Yield every commit after a version in order, reading a backlog ahead.

    Raises:
        LogCleanedError: later versions exist, but their commits have been cleaned away.
    """
    count = 0
    while (commit := next_commit(store, version)) is not None:
        yield commit
        version, count = commit.version, count + 1
        if count >= _BACKLOG:
            for later in _read_ahead(store, version):
                yield later
                version = later.version


def next_commit(store: Store, version: int) -> LogCommit | None:
    """Read the commit after a version; return None if the version is the latest.

    Raises:
        LogCleanedError: later versions exist, but their commits have been cleaned away.
        TableReplacedError: the log no longer reaches this version.
    """
    try:
        return read_commit(store, version + 1)
    except FileMissingError:
        if is_latest(store, version):
            return None
    newest = newest_version(store, version)
    if newest < version:
        raise TableReplacedError(store.root, version)
    if newest == version:
        return None
    if store.stat(commit_path(version + 1)) is not None:
        return next_commit(store, version)
    what = (
        f"Versions {version + 1} to {newest} of {store.root} were committed and removed by "
        f"log cleanup after this transaction read version {version}, so their changes cannot "
        "be checked. Nothing was written."
    )
    raise LogCleanedError(what, "Run it again on the latest version.")


def check_in_place(store: Store, read: TableState, validated: Tip | None = None) -> Tip | None:
    """Check that the table is still the one read, and not a replacement.

    The commits of the read version and of the last winning commit prove it. If the first was
    cleaned away, or has no commit info, the files of the read version in the current log are
    compared.

    `validated` is the last winning commit after the version read; None if there is none.

    Returns:
        The current tip of the later of the two, None if it is gone.

    Raises:
        TableReplacedError: it is another table.
        LogCleanedError: undecidable, because the log was cleaned meanwhile.
    """
    file = store.stat(read.tip.file.path) if read.tip else None
    if read.tip is not None and file is not None and is_another_log(store, read.tip, file):
        raise TableReplacedError(store.root, read.version)
    if read.tip is None or file is None or not is_same_log(store, read.tip, file):
        _check_continued(store, read, read.version if validated is None else validated.version)
    if validated is not None:
        file = store.stat(validated.file.path)
        if file is not None and not is_same_log(store, validated, file):
            raise TableReplacedError(store.root, validated.version)
    tip = validated or read.tip
    return replace(tip, file=file) if tip is not None and file is not None else None


def check_landed(store: Store, committed_version: int, before: Tip | None = None) -> None:
    """Check that a commit just written continues the log and fills no gap left by cleanup.

    `before` is the tip of the preceding version just before the write.

    Raises:
        CommitOutcomeUnknownError: the log was cleaned past this version meanwhile, or is another's.
    """
    version = committed_version - 1
    file = store.stat(commit_path(version)) if version >= 0 else None
    if file is not None and before is not None and not is_same_log(store, before, file):
        what = (
            f"Version {committed_version} was written to {store.root} after another table had "
            f"replaced the table that was read. It follows version {version} of the new table."
        )
        raise CommitOutcomeUnknownError(what, "Check the table before you run the write again.")
    if version < 0 or file is not None:
        return
    states = _states(store, version)
    if any(state.version == version for state in states):
        return
    newest = max((state.version for state in states), default=-1)
    what = (
        f"Version {committed_version} of {store.root} was written while the log was being "
        f"cleaned up. The log ends at version {newest}, and may have had another version "
        f"{committed_version}."
    )
    raise CommitOutcomeUnknownError(what, "Check the table before you run the write again.")


def newest_version(store: Store, from_version: int = 0) -> int:
    """Return the latest version with a commit or checkpoint in the log, -1 if there is none."""
    return max((state.version for state in _states(store, from_version)), default=-1)


def _read_ahead(store: Store, version: int) -> Iterator[LogCommit]:
    """Yield the commits after a version, up to the first gap."""
    listed = list_versions(store, version + 1)
    run = [number for place, number in enumerate(listed) if number == version + 1 + place]
    return read_ahead(store, partial(read_commit, store), run)


def _check_continued(store: Store, read: TableState, validated_version: int) -> None:
    """Check that the read version replayed from the log equals the state read.

    If the log can no longer replay it, replaying later commits onto the state read must give the
    files of the validated version: weaker evidence, as a later commit may have removed the
    differences.
    """
    try:
        if not read.is_same(load_table_state(store, read.version)):
            raise TableReplacedError(store.root, read.version)
        return
    except (VersionNotFoundError, LogGapError):
        pass  # cleaned away
    except TableNotFoundError as error:
        raise TableReplacedError(store.root, read.version) from error
    try:
        expected = _apply_commits(store, read, validated_version)
        now = load_table_state(store, validated_version)
    except (TableNotFoundError, VersionNotFoundError, LogGapError) as error:
        raise TableReplacedError(store.root, read.version) from error
    if not expected.has_same_files(now):
        raise TableReplacedError(store.root, read.version)


def _apply_commits(store: Store, read: TableState, version: int) -> TableState:
    """Apply the log's commits since the read version to it."""
    if version == read.version:
        return read
    later = newer_segment(list_log_files(store, read.version), read.version)
    if later is None:
        what = (
            f"Log cleanup removed version {read.version} of {store.root}, which was read, so "
            "it is not known whether it is still the same table. Nothing was written."
        )
        raise LogCleanedError(what, "Run it again.")
    return load_state(store, later.truncate(version), read)


def _states(store: Store, from_version: int) -> list[LogFile]:
    return [
        log_file for log_file in list_log_files(store, from_version) if log_file.name.kind in STATES
    ]


def is_own(commit: LogCommit, txn_id: str) -> bool:
    """Return whether a commit belongs to the transaction with this id."""
    return commit.commit_info is not None and commit.commit_info.txn_id == txn_id


def find_own_commit(store: Store, txn_id: str, after_version: int, up_to: int) -> LogCommit | None:
    """Find a transaction's commit among the versions after one, up to and including another.

    Raises:
        CommitOutcomeUnknownError: one of these versions has been cleaned away, so it is unknown
            whether the transaction landed.
    """
    for version in range(up_to, after_version, -1):
        commit = _read(store, version)
        if is_own(commit, txn_id):
            return commit
    return None


def _read(store: Store, version: int) -> LogCommit:
    try:
        return read_commit(store, version)
    except FileMissingError as gone:
        what = (
            f"It is not known whether this transaction was committed to {store.root}: log "
            f"cleanup removed version {version}, which may be its commit."
        )
        remedy = "Check the table, and start a new job if the change is missing."
        raise CommitOutcomeUnknownError(what, remedy) from gone
