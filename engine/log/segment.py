"""Log segments: the log files of a version.

A `LogSegment` promises:

1. its checkpoint, if it has one, is complete and not later than the version;
2. its commits are every version from after the checkpoint (or from 0) to the version, none missing;
3. without a checkpoint there is a commit 0.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from engine.errors import FileMissingError, LogGapError, TableNotFoundError, VersionNotFoundError
from engine.log.paths import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    LogFileKind,
    LogFileName,
    commit_path,
    parse_name,
)
from engine.storage.base import FileStatus, Store

MAX_HINT_BYTES = 16 * 1024 * 1024
STATES = frozenset(
    {
        LogFileKind.COMMIT,
        LogFileKind.CHECKPOINT,
        LogFileKind.CHECKPOINT_PART,
        LogFileKind.CHECKPOINT_V2,
    }
)
"""The kinds of files that prove a version existed."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log with its parsed name."""

    name: LogFileName
    status: FileStatus

    @property
    def path(self) -> str:
        """Relative to the table's root."""
        return self.status.path

    @property
    def version(self) -> int:
        """The (first) version it describes."""
        return self.name.version


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: one file, or every part of a multi-part one."""

    version: int
    files: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files needed for a version.

    `tip` is the commit of the version itself, even if the checkpoint covers it.
    """

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogFile, ...]
    compactions: tuple[LogFile, ...] = ()
    tip: LogFile | None = None

    def tail(self, version: int) -> "LogSegment":
        """Return the segment after a known version, without its checkpoint."""
        later = tuple(commit for commit in self.commits if commit.version > version)
        compactions = tuple(
            compaction for compaction in self.compactions if compaction.version > version
        )
        return LogSegment(self.version, None, later, compactions)

    def truncate(self, version: int) -> "LogSegment":
        """Return the segment of an earlier version, not before the checkpoint."""
        commits = tuple(commit for commit in self.commits if commit.version <= version)
        compactions = tuple(
            compaction for compaction in self.compactions if compaction.name.end_version <= version
        )
        return LogSegment(version, self.checkpoint, commits, compactions)


def later_ms(file_ms: int, before_ms: int | None) -> int:
    """Return a version's file time, made later than that of the version before it."""
    return file_ms if before_ms is None else max(file_ms, before_ms + 1)


class _Hint(msgspec.Struct):
    version: int


def list_segment(
    store: Store, version: int | None = None, *, checkpoint_before: int | None = None
) -> LogSegment:
    """List the segment of a version, by default of the latest.

    `_last_checkpoint` is a hint: it may be absent, stale or damaged.

    With `checkpoint_before`, use only checkpoints before this version, because it is unreadable.

    Raises:
        TableNotFoundError: there is no log.
        VersionNotFoundError: the log does not have this version.
        LogGapError: commits are missing between the checkpoint and the version.
    """
    try:
        return _list_segment(store, version, checkpoint_before)
    except LogGapError:  # a listing during commits may show only the later one
        return _list_segment(store, version, checkpoint_before)


def check_log(store: Store) -> None:
    """Check that there is a log; list it only without a commit 0 and a checkpoint hint.

    Raises:
        TableNotFoundError: there is none.
    """
    if (
        store.stat(commit_path(0)) is None
        and read_hint(store) is None
        and not list_log_files(store)
    ):
        raise _no_table(store)


def _no_table(store: Store) -> TableNotFoundError:
    msg = f"There is no Delta table at {store.root}."
    return TableNotFoundError(msg, "Check the location, or create the table.")


def _list_segment(store: Store, version: int | None, checkpoint_before: int | None) -> LogSegment:
    hint = read_hint(store) if checkpoint_before is None else None
    if hint is not None and (version is None or hint <= version):
        files = list_log_files(store, hint)
        if any(checkpoint.version == hint for checkpoint in complete_checkpoints(files)):
            return _segment(store, files, version, None)
    files = list_log_files(store)
    if not files:
        raise _no_table(store)
    return _segment(store, files, version, checkpoint_before)


def newer_segment(files: Sequence[LogFile], version: int) -> LogSegment | None:
    """Return the commits after a version from the log's files.

    Return None if they do not follow it without a gap: then use `list_segment`.
    """
    commits = {file.version: file for file in files if file.name.kind is LogFileKind.COMMIT}
    newest = max((file.version for file in files if file.name.kind in STATES), default=-1)
    if newest < version or any(v not in commits for v in range(version + 1, newest + 1)):
        return None
    later = tuple(commits[v] for v in range(version + 1, newest + 1))
    return LogSegment(newest, None, later, _compactions(files, version, newest))


def whole_log(files: Sequence[LogFile]) -> tuple[LogFile, ...]:
    """Return every commit of a log from the first, if it has no checkpoint.

    Return () if there is one, or a commit is missing.
    """
    segment = None if complete_checkpoints(files) else newer_segment(files, -1)
    return () if segment is None else segment.commits


def list_log_files(store: Store, from_version: int = 0) -> list[LogFile]:
    """List the files of the log from a version on, sorted by name."""
    log_files = []
    for status in store.list_from(LOG_DIRECTORY, f"{max(from_version, 0):020}"):
        name = parse_name(status.name)
        if name is not None:
            log_files.append(LogFile(name, status))
        elif not status.name[0].isdigit():
            break
    return log_files


def complete_checkpoints(files: Iterable[LogFile]) -> list[Checkpoint]:
    """Return the complete checkpoints; for several of one version, a classic one."""
    kinds = (LogFileKind.CHECKPOINT, LogFileKind.CHECKPOINT_V2)
    checkpoints = {
        file.version: Checkpoint(file.version, (file,))
        for file in files
        if file.name.kind is kinds[1]
    }
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in files:
        if file.name.kind is LogFileKind.CHECKPOINT_PART:
            parts.setdefault((file.version, file.name.parts), {})[file.name.part] = file
    for (version, count), present in parts.items():
        if count == len(present) and set(present) == set(range(1, count + 1)):
            checkpoints[version] = Checkpoint(version, tuple(present[n] for n in sorted(present)))
    checkpoints |= {
        file.version: Checkpoint(file.version, (file,))
        for file in files
        if file.name.kind is kinds[0]
    }
    return list(checkpoints.values())


def earliest_version(files: Sequence[LogFile]) -> int | None:
    """Return the first readable version: commit 0, or the first complete checkpoint."""
    commits = [file.version for file in files if file.name.kind is LogFileKind.COMMIT]
    if commits and commits[0] == 0:
        return 0
    return min((checkpoint.version for checkpoint in complete_checkpoints(files)), default=None)


def read_hint(store: Store) -> int | None:
    """Return the version in `_last_checkpoint`; None if it is absent or damaged."""
    try:
        version = msgspec.json.decode(
            store.read(LAST_CHECKPOINT, 0, MAX_HINT_BYTES), type=_Hint
        ).version
    except (FileMissingError, msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return version if 0 <= version < 10**19 else None


def is_latest(store: Store, version: int) -> bool:
    """Return whether a version without a successor is the latest; True is proof.

    A lost or not yet visible successor has successors of its own.
    """
    hint = read_hint(store)
    passed_over = hint is not None and hint > version
    if version < 0 or passed_over or store.stat(commit_path(version)) is None:
        return False
    return store.stat(commit_path(version + 2)) is None


def _segment(
    store: Store, files: list[LogFile], version: int | None, checkpoint_before: int | None
) -> LogSegment:
    newest = max(
        (file.version for file in files if file.name.kind is LogFileKind.COMMIT), default=-1
    )
    complete = complete_checkpoints(files)
    newest = max([newest, *(candidate.version for candidate in complete)])
    if newest < 0:
        msg = f"There is no Delta table at {store.root}: its log holds no commit and no checkpoint."
        raise TableNotFoundError(msg, "Check the location, or create the table.")
    target = newest if version is None else version
    if not 0 <= target <= newest:
        raise _no_version(store, target, newest)
    limit = target + 1 if checkpoint_before is None else min(target + 1, checkpoint_before)
    usable = [candidate for candidate in complete if candidate.version < limit]
    checkpoint = max(usable, key=lambda candidate: candidate.version, default=None)
    first = 0 if checkpoint is None else checkpoint.version + 1
    commits = {file.version: file for file in files if file.name.kind is LogFileKind.COMMIT}
    needed = range(first, target + 1)
    if any(number not in commits for number in needed):
        if version is not None and checkpoint is None and 0 not in commits and complete:
            raise _no_version(store, target, newest)
        raise _gap(
            store,
            [number for number in itertools.islice(needed, 1_000_000) if number not in commits],
            target,
        )
    chosen = tuple(commits[number] for number in needed)
    compactions = _compactions(files, first - 1, target)
    return LogSegment(target, checkpoint, chosen, compactions, commits.get(target))


def _compactions(files: Iterable[LogFile], after: int, until: int) -> tuple[LogFile, ...]:
    return tuple(
        file
        for file in files
        if file.name.kind is LogFileKind.COMPACTED
        and after < file.version <= file.name.end_version <= until
    )


def _no_version(store: Store, version: int, newest: int) -> VersionNotFoundError:
    earliest = earliest_version(list_log_files(store))
    return VersionNotFoundError(
        store.root, version, newest if earliest is None else earliest, newest
    )


def _gap(store: Store, missing: list[int], version: int) -> LogGapError:
    shown = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
    msg = (
        f"Version {version} of {store.root} cannot be rebuilt: "
        f"{commit_path(missing[0])} is missing (versions {shown})."
    )
    return LogGapError(msg, "Restore the missing files of the log from a backup.")
