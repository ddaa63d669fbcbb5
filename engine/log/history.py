"""History: who committed what and when, the version at a time, and when files were removed.

From the version that enabled in-commit timestamps on, a version's time is its in-commit timestamp;
otherwise it is its file's time, made monotonic (protocol: In-Commit Timestamps).

Removals are read from the remaining commits, because a checkpoint drops tombstones older than the
table's retention at the time it was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, RemoveFile
from engine.actions.table import Metadata
from engine.clock import utc_from_ms
from engine.errors import (
    FileMissingError,
    TableNotFoundError,
    TableReplacedError,
    TimestampOutOfRangeError,
    TimestampTooEarlyError,
    TimestampTooLateError,
)
from engine.log.commits import iter_actions, read_commit_info
from engine.log.paths import LogFileKind, commit_path
from engine.log.replay import TableState
from engine.log.segment import LogFile, earliest_version, later_ms, list_log_files
from engine.log.tip import Tip, is_replaced
from engine.protocol.properties import TableProperties
from engine.storage.base import Store
from engine.storage.presence import read_ahead

_BATCH = 16
_ICT_KEYS = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


def iter_history(
    store: Store, limit: int | None = None, *, known_version: int | None = None
) -> Iterator[CommitInfo]:
    """Yield the commits still in the log, latest first, with version and timestamp filled in.

    A commit without `commitInfo` yields one with only these two. The timestamp is the version's, as
    used by `version_at`.

    With `known_version`, an existing version, a limited history needs no listing of earlier ones.

    Raises:
        TableNotFoundError: there is no log.
        TableReplacedError: another table replaced this one meanwhile. The commits yielded before
            belong to this one.
    """
    commits = _newest_commits(store, limit, known_version)
    times = file_times(commits)
    for file, info in _iter_infos(store, commits):
        own = info.in_commit_timestamp
        timestamp = times[file.version] if own is None else own
        yield msgspec.structs.replace(info, version=file.version, timestamp=timestamp)


def iter_told(store: Store, limit: int) -> Iterator[CommitInfo]:
    """Yield commits from the latest back, with the writer's own time if the commit has it."""
    for file, info in _iter_infos(store, _newest_commits(store, limit, None)):
        own = info.in_commit_timestamp
        told = info.timestamp if own is None else own
        timestamp = file.status.modified_ms if told is None else told
        yield msgspec.structs.replace(info, version=file.version, timestamp=timestamp)


def _iter_infos(store: Store, commits: Sequence[LogFile]) -> Iterator[tuple[LogFile, CommitInfo]]:
    """Yield commits with their commit info, read in batches."""
    tip: Tip | None = None
    for start in range(0, len(commits), _BATCH):
        batch = _read_infos(store, commits[start : start + _BATCH])
        if tip is None and batch:
            newest, info = batch[0]
            tip = Tip(newest.version, newest.status, info)
        if tip is not None and is_replaced(store, tip):
            raise TableReplacedError(store.root, tip.version)
        yield from ((file, info or CommitInfo()) for file, info in batch)


def _newest_commits(store: Store, limit: int | None, known_version: int | None) -> list[LogFile]:
    """Return the commits of a history, latest first."""
    count = None if limit is None else max(limit, 0)
    first = 0 if count is None or known_version is None else known_version - count + 1
    commits = _list_commits(store, first)
    if first > 0 and len(commits) < (count or 0):  # a shorter log than expected, or a cleaned one
        commits = _list_commits(store, 0)
    return commits[::-1][:count]


def _list_commits(store: Store, from_version: int) -> list[LogFile]:
    files = list_log_files(store, from_version)
    if not files and from_version <= 0:
        msg = f"There is no Delta table at {store.root}."
        raise TableNotFoundError(msg, "Check the location, or create the table.")
    return [file for file in files if file.name.kind is LogFileKind.COMMIT]


def commit_timestamp_ms(store: Store, state: TableState) -> int:
    """Return the time at which a state's version was committed, in ms.

    File times are made monotonic over the commits read for the state.
    """
    since = timestamp_enablement_version(state.metadata)
    if since is not None and state.version >= since:
        info = state.commit_info or _info_of(store, state.version)
        if info is not None and info.in_commit_timestamp is not None:
            return info.in_commit_timestamp
    if state.file_time_ms is not None:
        return state.file_time_ms
    status = store.stat(commit_path(state.version))
    if status is not None:
        return status.modified_ms
    times = file_times(list_log_files(store))
    return times.get(state.version) or max(times.values(), default=0)


def timestamp_enablement_version(metadata: Metadata) -> int | None:
    """Return the first version with in-commit timestamps; None if they are off."""
    timestamps = {key: value for key, value in metadata.configuration.items() if key in _ICT_KEYS}
    properties = TableProperties.parse(timestamps)
    if not properties.in_commit_timestamps:
        return None
    return properties.in_commit_timestamp_enablement_version or 0


def version_at(store: Store, metadata: Metadata, timestamp_ms: int) -> int:
    """Return the latest version committed at or before a time.

    Raises:
        TimestampOutOfRangeError: the time is before the first readable version, or after the latest
            commit.
    """
    timeline = _timeline_of(store, metadata)
    timeline.check_until(timestamp_ms)
    if timestamp_ms < timeline.time_ms(timeline.versions[0]):
        raise timeline.range_error(timestamp_ms)
    return timeline.newest_until(timestamp_ms)


def version_from(store: Store, metadata: Metadata, timestamp_ms: int) -> int:
    """Return the first version committed at a time or later.

    As in delta-spark, a change feed or stream from an earlier time starts with the first version.

    Raises:
        TimestampOutOfRangeError: the time is after the latest commit.
    """
    timeline = _timeline_of(store, metadata)
    timeline.check_until(timestamp_ms)
    first = timeline.versions[0]
    if timestamp_ms <= timeline.time_ms(first):
        return first
    return timeline.newest_until(timestamp_ms - 1) + 1


def _timeline_of(store: Store, metadata: Metadata) -> "_Timeline":
    files = list_log_files(store)
    earliest = earliest_version(files)
    times = {v: ms for v, ms in file_times(files).items() if v >= (earliest or 0)}
    if not times:
        msg = f"There is no Delta table at {store.root}."
        raise TableNotFoundError(msg, "Check the location, or create the table.")
    return _Timeline(store, times, timestamp_enablement_version(metadata))


def file_times(files: Sequence[LogFile]) -> dict[int, int]:
    """Return the file time of each version in ms, strictly increasing.

    Copies and clocks disorder file times: a time not after its predecessor's becomes one
    millisecond later. A version without commit file takes its checkpoint's time.
    """
    kinds = (
        LogFileKind.COMMIT,
        LogFileKind.CHECKPOINT,
        LogFileKind.CHECKPOINT_V2,
        LogFileKind.CHECKPOINT_PART,
    )
    raw: dict[int, int] = {}
    for kind in reversed(kinds):
        raw |= {file.version: file.status.modified_ms for file in files if file.name.kind is kind}
    times: dict[int, int] = {}
    latest: int | None = None
    for version in sorted(raw):
        latest = later_ms(raw[version], latest)
        times[version] = latest
    return times


class _Timeline:
    """Versions and their times; in-commit timestamps are read when they are requested."""

    def __init__(self, store: Store, file_ms: dict[int, int], since: int | None) -> None:
        self.versions = sorted(file_ms)
        self._store, self._file_ms, self._since = store, file_ms, since
        self._own: dict[int, int] = {}

    def time_ms(self, version: int) -> int:
        if self._since is None or version < self._since:
            return self._file_ms[version]
        if version not in self._own:
            info = _info_of(self._store, version)
            own = info.in_commit_timestamp if info else None
            self._own[version] = self._file_ms[version] if own is None else own
        return self._own[version]

    def range_error(self, timestamp_ms: int) -> TimestampOutOfRangeError:
        """Build the error for a time without a current version."""
        first, last = self.time_ms(self.versions[0]), self.time_ms(self.versions[-1])
        kind = TimestampTooLateError if timestamp_ms > last else TimestampTooEarlyError
        return kind(
            self._store.root, _format_time(timestamp_ms), _format_time(first), _format_time(last)
        )

    def check_until(self, timestamp_ms: int) -> None:
        """Refuse a time after the latest commit.

        Raises:
            TimestampOutOfRangeError: it is one.
        """
        if timestamp_ms > self.time_ms(self.versions[-1]):
            raise self.range_error(timestamp_ms)

    def newest_until(self, timestamp_ms: int) -> int:
        """Find the latest version until a time, preferring versions with their own time."""
        with_own = [v for v in self.versions if self._since is not None and v >= self._since]
        before = [v for v in self.versions if self._since is None or v < self._since]
        among = (
            with_own
            if with_own and (not before or self.time_ms(with_own[0]) <= timestamp_ms)
            else before
        )
        low, high = 0, len(among) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.time_ms(among[middle]) <= timestamp_ms:
                low = middle
            else:
                high = middle - 1
        return among[low]


def _read_infos(
    store: Store, commits: Sequence[LogFile]
) -> list[tuple[LogFile, CommitInfo | None]]:
    """Read the commit info of commits, skipping commits cleaned away meanwhile."""
    commits_read = []
    for commit in commits:
        with suppress(FileMissingError):
            commits_read.append((commit, read_commit_info(store, commit.path)))
    return commits_read


def _info_of(store: Store, version: int) -> CommitInfo | None:
    try:
        return read_commit_info(store, commit_path(version))
    except FileMissingError:
        return None


def _format_time(epoch_ms: int) -> str:
    try:
        return utc_from_ms(epoch_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms after 1970"


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
