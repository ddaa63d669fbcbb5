"""Successors of a version in a local log, found by file name: listing a long log takes longer."""

from engine.log.paths import LogFileKind, LogFileName, commit_path
from engine.log.segment import LogFile, LogSegment, is_latest
from engine.log.tip import Tip
from engine.storage.base import Store
from engine.storage.local import LocalStore

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
