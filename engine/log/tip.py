"""The tip of a log: the last file read from it, by which the log is recognized.

A table may be deleted and recreated in place, or restored from a backup: then an earlier read
version is another one, regardless of file times. Reads and writes must not continue from it.

Successors of the tip in a local log are found by file name, because listing a long log takes
longer.
"""

from dataclasses import dataclass

import msgspec

from engine.actions.commit_info import CommitInfo
from engine.errors import FileMissingError
from engine.log.commits import LogCommit, read_commit_info
from engine.log.paths import LogFileKind, LogFileName, commit_path
from engine.log.segment import LogFile, LogSegment, is_latest
from engine.storage.base import FileStatus, Store
from engine.storage.local import LocalStore


@dataclass(frozen=True, slots=True)
class Tip:
    """The commit of a version, or its checkpoint if the log has no commit of it.

    `info` is the commit info, None if it is missing or was not read.
    """

    version: int
    file: FileStatus
    info: CommitInfo | None

    @classmethod
    def from_commit(cls, commit: LogCommit) -> "Tip":
        """Return the tip of a log ending with a commit."""
        return cls(commit.version, commit.file, commit.commit_info)


def is_in_place(store: Store, tip: Tip | None) -> bool:
    """Return whether the log read up to a tip is certainly the current one."""
    file = store.stat(tip.file.path) if tip is not None else None
    return tip is not None and file is not None and is_same_log(store, tip, file)


def is_replaced(store: Store, tip: Tip) -> bool:
    """Return whether another log replaced the one read: the tip's file exists and differs.

    A tip deleted by log cleanup proves nothing.
    """
    file = store.stat(tip.file.path)
    return file is not None and not is_same_log(store, tip, file)


def is_same_log(store: Store, tip: Tip, file: FileStatus) -> bool:
    """Return whether the current file of the tip's name is certainly the one read.

    A file with other attributes may still be a copy: then the commit itself decides.
    """
    return file.is_unchanged(tip.file) or _says_the_same(store, tip, file) is True


def is_another_log(store: Store, tip: Tip, file: FileStatus) -> bool:
    """Return whether the current file of the tip's name is certainly not the one read."""
    return not file.is_unchanged(tip.file) and _says_the_same(store, tip, file) is False


def _says_the_same(store: Store, tip: Tip, file: FileStatus) -> bool | None:
    """Return whether a commit matches the tip by its commit info; None if undecidable."""
    info = tip.info
    if info is None or file.path != commit_path(tip.version):
        return None
    if info.txn_id is None and info.timestamp is None:
        return None
    if file.size_bytes != tip.file.size_bytes:
        return False
    try:
        other = read_commit_info(store, file.path)
    except FileMissingError:
        return None
    return other is not None and _drop_version(other) == _drop_version(info)


def _drop_version(info: CommitInfo) -> CommitInfo:
    return msgspec.structs.replace(info, version=None)


_ASKED = 8


def has_none(store: Store, tip: Tip | None) -> bool:
    """Return whether a log's tip is certainly unchanged and the latest; False proves nothing."""
    if not _is_unchanged(store, tip) or tip is None:
        return False
    return store.stat(commit_path(tip.version + 1)) is None and is_latest(store, tip.version)


def commits_until(store: Store, tip: Tip | None, version: int) -> LogSegment | None:
    """Return the commits after a log's tip up to an existing later version.

    Return None if only a listing can tell.
    """
    if tip is None or not 0 < version - tip.version <= _ASKED or not _is_unchanged(store, tip):
        return None
    commits = []
    for number in range(tip.version + 1, version + 1):
        status = store.stat(commit_path(number))
        if status is None:
            return None
        commits.append(LogFile(LogFileName(LogFileKind.COMMIT, number, number), status))
    return LogSegment(version, None, tuple(commits))


def _is_unchanged(store: Store, tip: Tip | None) -> bool:
    """Return whether the file the tip was read from still exists unchanged, by its inode."""
    if tip is None or not isinstance(store, LocalStore):
        return False
    file = store.stat(tip.file.path)
    return file is not None and file.is_unchanged(tip.file)
