"""Where the log stands: what landed after a version, and whether nothing was cleaned away unseen.

Log cleanup deletes what lies before a checkpoint, the oldest version first. So while the commit of
a version is there, and no checkpoint lies above it, a missing successor means that the version is
the latest. Where either fails the log is listed: a put-if-absent into a hole that cleanup left would
succeed and be lost.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from engine.errors import (
    CommitOutcomeUnknownError,
    FileMissingError,
    LogCleanedError,
    TableReplacedError,
)
from engine.log.commits import Commit, list_versions, read_commit
from engine.log.paths import LogFileKind, commit_path
from engine.log.replay import TableState, load_table_state
from engine.log.segment import LogFile, list_log_files, read_hint
from engine.storage.base import Store

_BACKLOG, _READERS, _WINDOW = 4, 8, 64
_STATES = frozenset(
    {
        LogFileKind.COMMIT,
        LogFileKind.CHECKPOINT,
        LogFileKind.CHECKPOINT_PART,
        LogFileKind.CHECKPOINT_V2,
    }
)


def iter_newer(store: Store, version: int) -> Iterator[Commit]:
    """Every commit after a version, in order, until there is none. A backlog is read ahead.

    Raises:
        LogCleanedError: later versions exist, but their commits have been cleaned away.
    """
    found = 0
    while (commit := next_commit(store, version)) is not None:
        yield commit
        version, found = commit.version, found + 1
        if found >= _BACKLOG:
            for later in _read_ahead(store, version):
                yield later
                version = later.version


def next_commit(store: Store, version: int) -> Commit | None:
    """The commit that followed a version, None where that version is the latest.

    Raises:
        LogCleanedError: later versions exist, but their commits have been cleaned away.
        TableReplacedError: the log does not reach that version any more.
    """
    try:
        return read_commit(store, version + 1)
    except FileMissingError:
        if _is_latest(store, version):
            return None
    newest = newest_version(store, version)
    if newest < version:
        raise TableReplacedError(store.root, version)
    if newest == version:
        return None
    if store.stat(commit_path(version + 1)) is not None:
        return next_commit(store, version)
    what = (
        f"Versions {version + 1} to {newest} of {store.root} were committed and cleaned away after"
        f" this transaction read version {version}: what they changed cannot be checked."
        " Nothing was written."
    )
    raise LogCleanedError(what, "Run it again on the latest version.")


def check_in_place(store: Store, read: TableState) -> None:
    """Make sure that the table is still the one that was read, and not another one in its place.

    The commit of the version read tells: by the time of its file, and where that is another, by who
    wrote it. One that was cleaned away tells nothing; whether its successors are there is looked at
    when they are read.

    Raises:
        TableReplacedError: it is not.
    """
    status = store.stat(commit_path(read.version))
    if status is None or _is_same_time(status.modified_ms, read.file_time_ms):
        return
    if not _is_same_commit(store, read):
        raise TableReplacedError(store.root, read.version)


def check_landed(store: Store, committed_version: int) -> None:
    """Make sure that a commit just written continues the log, and fills no hole that cleanup left.

    Raises:
        CommitOutcomeUnknownError: the log was cleaned past that version meanwhile.
    """
    before = committed_version - 1
    if before < 0 or store.stat(commit_path(before)) is not None:
        return
    states = _states(store, before)
    if any(each.version == before for each in states):
        return
    newest = max((each.version for each in states), default=-1)
    what = (
        f"Version {committed_version} of {store.root} was written while the log was being cleaned:"
        f" the log goes up to {newest}, and may have held another version {committed_version}."
    )
    raise CommitOutcomeUnknownError(what, "Look at the table before you run it again.")


def newest_version(store: Store, from_version: int = 0) -> int:
    """The newest version that a commit or checkpoint of the log names, -1 where there is none."""
    return max((each.version for each in _states(store, from_version)), default=-1)


def _read_ahead(store: Store, version: int) -> Iterator[Commit]:
    """The commits that follow a version without a gap, as far as they are there now."""
    listed = list_versions(store, version + 1)
    run = [each for place, each in enumerate(listed) if each == version + 1 + place]
    with ThreadPoolExecutor(_READERS) as pool:
        for start in range(0, len(run), _WINDOW):
            yield from pool.map(partial(read_commit, store), run[start : start + _WINDOW])


def _is_latest(store: Store, version: int) -> bool:
    """True is proof, for a version whose successor was not found before this was asked.

    A successor that was lost, or that the store does not show yet, has successors of its own.
    """
    hint = read_hint(store)
    passed_over = hint is not None and hint > version
    if version < 0 or passed_over or store.stat(commit_path(version)) is None:
        return False
    return store.stat(commit_path(version + 2)) is None


def _is_same_time(file_ms: int, known_ms: int | None) -> bool:
    """Stores that list milliseconds may tell whole seconds of one file."""
    if known_ms is None:
        return False
    return file_ms in {known_ms, known_ms // 1000 * 1000}


def _is_same_commit(store: Store, read: TableState) -> bool:
    if read.commit_info is None:
        return load_table_state(store, read.version).metadata.id == read.metadata.id
    info = read_commit(store, read.version).commit_info
    return info is not None and msgspec.structs.replace(info, version=None) == (
        msgspec.structs.replace(read.commit_info, version=None)
    )


def _states(store: Store, from_version: int) -> list[LogFile]:
    return [each for each in list_log_files(store, from_version) if each.name.kind in _STATES]
