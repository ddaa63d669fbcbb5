"""One commit of the log, whole."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engine.actions.codec import Action, decode_lines
from engine.actions.commit_info import CommitInfo
from engine.errors import FileMissingError, MalformedLogError
from engine.log.paths import LogFileKind, commit_path
from engine.log.segment import list_log_files
from engine.storage.base import Store

_READ_AHEAD = 32


@dataclass(frozen=True, slots=True)
class Commit:
    """A version: what it did, who says so, and when (in-commit timestamp, or else the file's time)."""

    version: int
    actions: tuple[Action, ...]
    commit_info: CommitInfo | None
    timestamp_ms: int
    size_bytes: int


def read_commit(store: Store, version: int) -> Commit:
    """The commit of a version.

    Raises:
        FileMissingError: the log has no such commit (any more).
        MalformedLogError: it is not a list of actions.
    """
    path = commit_path(version)
    status = store.stat(path)
    if status is None:
        msg = f"The log of {store.root} has no commit {version}."
        raise FileMissingError(msg)
    data = store.read(path)
    actions = read_actions(data, path)
    info = next((each for each in actions if isinstance(each, CommitInfo)), None)
    in_commit = info.in_commit_timestamp if info else None
    timestamp_ms = status.modified_ms if in_commit is None else in_commit
    return Commit(version, actions, info, timestamp_ms, len(data))


def read_actions(data: bytes, path: str) -> tuple[Action, ...]:
    """The actions of a commit's bytes.

    Raises:
        MalformedLogError: naming the file.
    """
    try:
        return tuple(decode_lines(data))
    except MalformedLogError as error:
        msg = f"{path}: {error.what}"
        raise MalformedLogError(msg, error.remedy) from error


def iter_commit_actions(store: Store, paths: Iterable[str]) -> Iterator[tuple[Action, ...]]:
    """The actions of several commits in the order of their paths, read ahead.

    Raises:
        FileMissingError: a commit is gone.
        MalformedLogError: one is not a list of actions.
    """
    remaining = list(paths)
    if len(remaining) < 3:
        yield from (read_actions(store.read(path), path) for path in remaining)
        return
    with ThreadPoolExecutor(8) as pool:
        for start in range(0, len(remaining), _READ_AHEAD):
            window = remaining[start : start + _READ_AHEAD]
            for path, data in zip(window, pool.map(store.read, window), strict=True):
                yield read_actions(data, path)


def list_versions(store: Store, from_version: int = 0) -> list[int]:
    """The versions whose commits the log holds, ascending."""
    files = list_log_files(store, from_version)
    return [each.version for each in files if each.name.kind is LogFileKind.COMMIT]
