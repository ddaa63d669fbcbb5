"""Which files the commits of a log took out of the table, and when.

A checkpoint forgets that once it is older than the table retained files when the checkpoint was
written; the commits that remain do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, RemoveFile
from engine.errors import FileMissingError
from engine.log.commits import iter_actions
from engine.log.history import file_times
from engine.log.paths import LogFileKind
from engine.log.segment import LogFile, list_log_files
from engine.storage.base import Store
from engine.storage.presence import read_ahead

_ADD = b'{"add":'


class Removal(NamedTuple):
    """A file that a version no longer has, or the row changes of a version."""

    version: int
    action: RemoveFile | AddCDCFile
    time_ms: int


def iter_removals(store: Store) -> Iterator[Removal]:
    """What every commit of the log removed, and its row changes.

    Its time is the later one of what its writer says and of the version's own: until then
    readers had the file.

    Raises:
        MalformedLogError: a commit is not a list of actions.
    """
    files = list_log_files(store)
    times = file_times(files)
    commits = [file for file in files if file.name.kind is LogFileKind.COMMIT]
    for removals in read_ahead(store, partial(_removals, store, times), commits):
        yield from removals


def _removals(store: Store, times: Mapping[int, int], commit: LogFile) -> Sequence[Removal]:
    try:
        size_bytes = commit.status.size_bytes
        actions = list(iter_actions(store, commit.path, size_bytes, passed_over=_ADD))
    except FileMissingError:
        return ()  # cleaned away since it was listed
    stamps = [action.in_commit_timestamp for action in actions if isinstance(action, CommitInfo)]
    time_ms = next((stamp for stamp in stamps if stamp is not None), times[commit.version])
    return [
        Removal(commit.version, action, max(_deletion_ms(action), time_ms))
        for action in actions
        if isinstance(action, RemoveFile | AddCDCFile)
    ]


def _deletion_ms(action: RemoveFile | AddCDCFile) -> int:
    return (action.deletion_timestamp or 0) if isinstance(action, RemoveFile) else 0
