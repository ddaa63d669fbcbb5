"""One commit of the log, whole."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.actions.codec import MAX_LINE_BYTES, Action, decode, decode_lines, holds_action
from engine.actions.commit_info import CommitInfo
from engine.errors import FileMissingError, MalformedLogError
from engine.log.paths import LogFileKind, commit_path
from engine.log.segment import LogFile, list_log_files
from engine.storage.base import FileStatus, Store
from engine.storage.presence import read_ahead

_HEAD_BYTES = 64 * 1024
_PIECE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogCommit:
    """A version: its actions, commit info and time (in-commit timestamp, else file time)."""

    version: int
    actions: tuple[Action, ...]
    commit_info: CommitInfo | None
    timestamp_ms: int
    file: FileStatus

    @property
    def operation(self) -> str | None:
        """The operation's name in the commit info."""
        return None if self.commit_info is None else self.commit_info.operation

    @property
    def size_bytes(self) -> int:
        """The size of its file."""
        return self.file.size_bytes


def read_commit(
    store: Store, version: int, passed_over: bytes | tuple[bytes, ...] = ()
) -> LogCommit:
    """Read the commit of a version, without the lines beginning with `passed_over`.

    Raises:
        FileMissingError: the log does not have this commit, or no longer has it.
        MalformedLogError: it is not a list of actions.
    """
    path = commit_path(version)
    status = store.stat(path)
    if status is None:
        msg = f"The log of {store.root} has no commit {version}."
        raise FileMissingError(msg)
    return _commit(version, status, iter_actions(store, path, status.size_bytes, passed_over))


def read_commit_and_text(store: Store, file: LogFile, length: int) -> tuple[LogCommit, bytes]:
    """Read a listed commit and its first `length` bytes, in one request for short commits.

    Raises:
        FileMissingError, MalformedLogError: as in `read_commit`.
    """
    text = store.read(file.path, 0, length)
    status = file.status
    if status.size_bytes != len(text):  # longer, or replaced meanwhile
        return read_commit(store, file.version), text
    with _name_path_in_errors(file.path):
        return _commit(file.version, status, decode_lines(text)), text


def _commit(version: int, file: FileStatus, lines: Iterable[Action]) -> LogCommit:
    actions = tuple(lines)
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    in_commit = info.in_commit_timestamp if info else None
    timestamp_ms = file.modified_ms if in_commit is None else in_commit
    return LogCommit(version, actions, info, timestamp_ms, file)


def iter_actions(
    store: Store, path: str, size_bytes: int, passed_over: bytes | tuple[bytes, ...] = ()
) -> Iterator[Action]:
    """Yield the actions of a commit, reading a large one in pieces.

    Lines beginning with `passed_over` are not decoded.

    Raises:
        FileMissingError: the file is gone.
        MalformedLogError: a line is not an action, or too long; the error names the file.
    """
    with _name_path_in_errors(path):
        lines = _iter_lines(store, path, size_bytes)
        yield from (decode(line) for line in lines if not line.startswith(passed_over))


@contextmanager
def _name_path_in_errors(path: str) -> Iterator[None]:
    try:
        yield
    except MalformedLogError as error:
        msg = f"{path}: {error.what}"
        raise MalformedLogError(msg, error.remedy) from error


def iter_commits(store: Store, files: Sequence[FileStatus]) -> Iterator[Iterable[Action]]:
    """Yield the actions of each of several commits in order; small commits are read ahead.

    Raises:
        FileMissingError: a commit is gone.
        MalformedLogError: one is not a list of actions.
    """

    def read(file: FileStatus) -> Iterable[Action]:
        actions = iter_actions(store, file.path, file.size_bytes)
        return list(actions) if file.size_bytes <= _PIECE_BYTES else actions

    return read_ahead(store, read, files)


def _iter_lines(store: Store, path: str, size_bytes: int) -> Iterator[bytes]:
    """Yield the lines with an action; refuse oversized lines before reading them whole."""
    if size_bytes <= _PIECE_BYTES:
        lines = store.read(path).split(b"\n")
        yield from (line for line in lines if holds_action(line))
        return
    rest = b""
    for start in range(0, size_bytes, _PIECE_BYTES):
        *lines, rest = (rest + store.read(path, start, _PIECE_BYTES)).split(b"\n")
        yield from (line for line in lines if holds_action(line))
        if len(rest) > MAX_LINE_BYTES:
            msg = f"A line is longer than {MAX_LINE_BYTES} bytes."
            raise MalformedLogError(msg, "Repair the log with the engine that wrote it.")
    if holds_action(rest):
        yield rest


def read_commit_info(store: Store, path: str) -> CommitInfo | None:
    """Read the `commitInfo` of a commit, looking at the first line first.

    Raises:
        FileMissingError: there is no such commit.
    """
    head = store.read(path, 0, _HEAD_BYTES)
    first, newline, _ = head.partition(b"\n")
    if newline and b'"commitInfo"' in first:
        info = _commit_info(first)
        if info is not None:
            return info
    data = head if len(head) < _HEAD_BYTES else store.read(path)
    lines = (line for line in data.split(b"\n") if b'"commitInfo"' in line)
    return next((info for line in lines if (info := _commit_info(line)) is not None), None)


def _commit_info(line: bytes) -> CommitInfo | None:
    try:
        action = decode(line)
    except MalformedLogError:
        return None
    return action if isinstance(action, CommitInfo) else None


def list_versions(store: Store, from_version: int = 0) -> list[int]:
    """List the versions of the log's commits in ascending order."""
    files = list_log_files(store, from_version)
    return [file.version for file in files if file.name.kind is LogFileKind.COMMIT]
