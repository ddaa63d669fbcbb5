"""The tip of a log: the last file of it that was read, by which the log is known again.

A table may be deleted and made anew in its place, or put back from a backup: then a version that was
read is another one, however old or new its files are. Nothing may be read on from it, nor written
after it.
"""

from dataclasses import dataclass

import msgspec

from engine.actions.commit_info import CommitInfo
from engine.errors import FileMissingError
from engine.log.commits import LogCommit, read_commit_info
from engine.log.paths import commit_path
from engine.storage.base import FileStatus, Store


@dataclass(frozen=True, slots=True)
class Tip:
    """The commit of a version, or its checkpoint where the log has no commit of it.

    `info` is what the commit says of itself, None where it says nothing or was not read.
    """

    version: int
    file: FileStatus
    info: CommitInfo | None

    @classmethod
    def from_commit(cls, commit: LogCommit) -> "Tip":
        """The tip of a log that ends with a commit."""
        return cls(commit.version, commit.file, commit.commit_info)


def is_in_place(store: Store, tip: Tip | None) -> bool:
    """Whether the log that was read up to a tip is surely the one that is there now."""
    file = store.stat(tip.file.path) if tip is not None else None
    return tip is not None and file is not None and is_same_log(store, tip, file)


def is_replaced(store: Store, tip: Tip) -> bool:
    """Whether another log is in the place of the one that was read: its tip is there, and is another.

    A tip that log cleanup took tells nothing.
    """
    file = store.stat(tip.file.path)
    return file is not None and not is_same_log(store, tip, file)


def is_same_log(store: Store, tip: Tip, file: FileStatus) -> bool:
    """Whether a file that is there under the tip's name is surely the one that was read.

    A file that differs in anything may still be a copy: then the commit itself tells.
    """
    return file.is_unchanged(tip.file) or _says_the_same(store, tip, file) is True


def is_another_log(store: Store, tip: Tip, file: FileStatus) -> bool:
    """Whether a file that is there under the tip's name is surely not the one that was read."""
    return not file.is_unchanged(tip.file) and _says_the_same(store, tip, file) is False


def _says_the_same(store: Store, tip: Tip, file: FileStatus) -> bool | None:
    """Whether a commit is the tip's by what it says of itself; None where that tells nothing."""
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
