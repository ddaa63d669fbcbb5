"""One commit of the log, whole."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engine.actions.codec import MAX_LINE_BYTES, Action, decode, decode_lines
from engine.actions.commit_info import CommitInfo
from engine.errors import FileMissingError, MalformedLogError
from engine.log.paths import LogFileKind, commit_path
from engine.log.segment import list_log_files
from engine.storage.base import FileStatus, Store

_READ_AHEAD = 32
_PIECE_BYTES = 16 * 1024 * 1024


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
    actions = tuple(iter_actions(store, path, status.size_bytes))
    info = next((each for each in actions if isinstance(each, CommitInfo)), None)
    in_commit = info.in_commit_timestamp if info else None
    timestamp_ms = status.modified_ms if in_commit is None else in_commit
    return Commit(version, actions, info, timestamp_ms, status.size_bytes)


def iter_actions(store: Store, path: str, size_bytes: int) -> Iterator[Action]:
    """The actions of a commit, a large one read in pieces.

    Raises:
        FileMissingError: the file is gone.
        MalformedLogError: a line is no action, or too long to be one; the file is named.
    """
    try:
        if size_bytes <= _PIECE_BYTES:
            yield from decode_lines(store.read(path))
        else:
            yield from (decode(line) for line in _iter_lines(store, path, size_bytes))
    except MalformedLogError as error:
        msg = f"{path}: {error.what}"
        raise MalformedLogError(msg, error.remedy) from error


def iter_commits(store: Store, files: Sequence[FileStatus]) -> Iterator[Iterable[Action]]:
    """The actions of several commits in their order, small ones read ahead.

    Raises:
        FileMissingError: a commit is gone.
        MalformedLogError: one is not a list of actions.
    """

    def read(file: FileStatus) -> Iterable[Action]:
        actions = iter_actions(store, file.path, file.size_bytes)
        return list(actions) if file.size_bytes <= _PIECE_BYTES else actions

    if len(files) < 3:
        yield from map(read, files)
        return
    with ThreadPoolExecutor(8) as pool:
        for start in range(0, len(files), _READ_AHEAD):
            yield from pool.map(read, files[start : start + _READ_AHEAD])


def _iter_lines(store: Store, path: str, size_bytes: int) -> Iterator[bytes]:
    """Lines that are not empty; one longer than `MAX_LINE_BYTES` is refused before it is whole."""
    rest = b""
    for start in range(0, size_bytes, _PIECE_BYTES):
        *lines, rest = (rest + store.read(path, start, _PIECE_BYTES)).split(b"\n")
        yield from (line for line in lines if line and not line.isspace())
        if len(rest) > MAX_LINE_BYTES:
            msg = f"A line is longer than {MAX_LINE_BYTES} bytes."
            raise MalformedLogError(msg, "Repair the log with the engine that wrote it.")
    if rest and not rest.isspace():
        yield rest


def list_versions(store: Store, from_version: int = 0) -> list[int]:
    """The versions whose commits the log holds, ascending."""
    files = list_log_files(store, from_version)
    return [each.version for each in files if each.name.kind is LogFileKind.COMMIT]
