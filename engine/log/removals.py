"""Files removed by the commits of a log, with times.

A checkpoint drops tombstones older than the table's retention at the time it was written; the
remaining commits do not.
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
    """A file removed by a version, or a change data file of a version."""

    version: int
    action: RemoveFile | AddCDCFile
    time_ms: int


def iter_removals(store: Store) -> Iterator[Removal]:
    """Yield the removed files and change files of every commit in the log.

    The time is the later of the writer's and the version's own: until then readers had the file.

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
        return ()  # cleaned away since the listing
    stamps = [action.in_commit_timestamp for action in actions if isinstance(action, CommitInfo)]
    time_ms = next((stamp for stamp in stamps if stamp is not None), times[commit.version])
    return [
        Removal(commit.version, action, max(_deletion_ms(action), time_ms))
        for action in actions
        if isinstance(action, RemoveFile | AddCDCFile)
    ]


def _deletion_ms(action: RemoveFile | AddCDCFile) -> int:
    return (action.deletion_timestamp or 0) if isinstance(action, RemoveFile) else 0
