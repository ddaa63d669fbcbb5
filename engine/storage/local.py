"""A table in a local directory.

A commit appears whole or not at all: its bytes go to a temporary file of a unique name, are synced,
and the finished file is linked under the final name; `link` fails if the name is taken. The
temporary file is never opened again, since after the link both names are the same file. Checksums
are not synced: a lost or torn one is simply ignored.

The functions below the store read, link and sync single files; their failures are `OSError`s.
"""

import errno
import os
import stat
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from engine.errors import (
    FileExistsAlreadyError,
    FileMissingError,
    PathOutsideRootError,
    StorageError,
    StorageOutcomeUnknownError,
)
from engine.storage.base import FileStatus, check_path

_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors after which a file certainly has no new name."""
_LOCKS = [threading.Lock() for _ in range(64)]
_LONGEST_WAIT_S = 2.0
"""Time limit of waiting for another write; a second writer of one name then fails to link."""

_NOTHING_THERE = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
)  # links may form a cycle
_CHECKSUM = ".crc"
_LINKLESS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_NEEDS_LINKS = (
    "Keep tables on a file system with hard links, which are needed to write each version "
    "only once."
)
_MOVE_AWAY = "Move it out of the table, then try again."
_LOOK_FIRST = "Check the table's history before trying again."


File = TypeVar("File")
_FileOf = Callable[[str, os.DirEntry[str]], File | None]


class _MovedError(OSError):
    """A directory was replaced while it was opened."""


_NOT_LISTED = (
    FileNotFoundError,
    NotADirectoryError,
    PermissionError,
    PathOutsideRootError,
    _MovedError,
)


class LocalStore:
    """The files below one directory, except symbolic links leading out of it."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)
        self._real_root = os.path.realpath(self._root)
        self._verified_root: tuple[int, int] | None = None

    @property
    def root(self) -> str:
        """The directory, absolute."""
        return str(self._root)

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """Read a file, or `length` bytes of it from `start`."""
        with _errors_of("read", path):
            return read_piece(self.locate(path), start or 0, length)

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """Yield the files of one directory named `start` or later, sorted by name."""
        with _errors_of("list", directory):
            statuses = self._scan(directory, start)
        yield from sorted(statuses, key=lambda status: status.path)

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Yield every file below a directory, without entering symbolic links to directories."""
        self.locate(prefix)
        return self._walk(prefix.rstrip("/"), self._status_of)

    def list_paths(self) -> Iterator[str]:
        """Yield the paths of `list_all`, reading only names for most files."""
        return self._walk("", self._path_of)

    def stat(self, path: str) -> FileStatus | None:
        """Return the file's status, None if it does not exist."""
        with _errors_of("stat", path):
            try:
                status = os.stat(self.locate(path))  # noqa: PTH116 - called for every log file
            except OSError as error:
                if error.errno in _NOTHING_THERE:
                    return None
                raise
        if not stat.S_ISREG(status.st_mode):
            return None
        return _status(path, status)

    def stat_many(self, paths: Iterable[str]) -> Iterator[FileStatus]:
        """Yield the statuses of existing files inside the table, opening each folder once."""
        for folder, files in _group_by_folder(paths).items():
            with _errors_of("stat", folder or self.root):
                yield from self._stat_in(folder, files)

    def _stat_in(self, folder: str, files: Iterable[tuple[str, str]]) -> list[FileStatus]:
        statuses: list[FileStatus | None] = []
        try:
            with self._open_folder(folder) as descriptor:
                for path, name in files:
                    status = _stat_name(name, descriptor)
                    if status is not None and stat.S_ISREG(status.st_mode):
                        statuses.append(_status(path, status))
                    elif status is not None and stat.S_ISLNK(status.st_mode):
                        statuses.append(self._stat_inside(path))
        except _NOT_LISTED:
            return []
        return [status for status in statuses if status is not None]

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file whole, unless it exists."""
        target, durable = Path(self.locate(path)), not path.endswith(_CHECKSUM)
        with _errors_of("write", path), one_at_a_time(target):
            if os.path.lexists(target):
                self._check_is_file(target, path)
                raise FileExistsError(errno.EEXIST, "it was written meanwhile", path)
            temporary = self._write_temporary(target, (data,), durable=durable)
            try:
                link_file(temporary, target)
            except AnswerLostError as error:
                msg = (
                    f"It is not known whether {path} was written to {self.root}: {error.strerror}."
                )
                raise StorageOutcomeUnknownError(msg, _LOOK_FIRST) from error
            except OSError as error:
                if error.errno not in _LINKLESS:
                    raise
                msg = (
                    f"{path} could not be written: {self.root} does not support hard links "
                    f"({error.strerror})."
                )
                raise StorageError(msg, _NEEDS_LINKS) from error
            finally:
                unlink_quietly(temporary)
        try:
            if durable:
                sync(target.parent)
        except OSError as error:
            msg = (
                f"{path} was written to {self.root}, but the directory could not be synced: "
                f"{error.strerror}."
            )
            raise StorageOutcomeUnknownError(msg, _LOOK_FIRST) from error

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing any existing one."""
        self.put_stream(path, (data,))

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a large file in pieces, replacing any existing one."""
        target = Path(self.locate(path))
        with _errors_of("write", path):
            temporary = self._write_temporary(target, pieces, durable=True)
            try:
                temporary.replace(target)
            except OSError:
                unlink_quietly(temporary)
                raise
            sync(target.parent)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with _errors_of("delete", path):
            Path(self.locate(path)).unlink(missing_ok=True)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete files as `delete` does, looking up each folder once."""
        for folder, files in _group_by_folder(paths).items():
            with _errors_of("delete", folder or self.root), suppress(FileNotFoundError):
                self._delete_in(folder, files)

    def _delete_in(self, folder: str, files: Iterable[tuple[str, str]]) -> None:
        with self._open_folder(folder) as descriptor:
            for path, name in files:
                with _errors_of("delete", path), suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        with _errors_of("open", path):
            return pa.OSFile(self.locate(path), mode="rb")

    def make_durable(self, paths: Iterable[str]) -> None:
        """Sync files and every directory from them up to the root."""
        folders: set[Path] = set()
        for path in paths:
            target = Path(self.locate(path))
            with _errors_of("sync", path):
                sync(target)
            folders.update(p for p in target.parents if p == self._root or self._root in p.parents)
        for folder in sorted(folders, key=lambda path: -len(path.parts)):
            with _errors_of("sync", str(folder)):
                sync(folder)

    def locate(self, path: str) -> str:
        """Return the local path of a file.

        Every step below the root is checked; only with a link among them is the full path resolved.

        Raises:
            PathOutsideRootError: a symbolic link leads it out of the root.
        """
        place = f"{self._root}/{check_path(path)}"
        if not (self._is_root_unmoved() and self._has_no_links(path)):
            real = os.path.realpath(place)
            if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
                msg = f"{path[:500]!r} leads outside {self.root} through a symbolic link."
                raise PathOutsideRootError(msg, "Move the file into the table's directory.")
        return place

    def _check_is_file(self, target: Path, path: str) -> None:
        """Refuse a name not taken by a regular file: readers would find no file there."""
        try:
            mode = target.stat().st_mode
        except FileNotFoundError as error:
            if not target.is_symlink():
                return  # deleted meanwhile
            msg = (
                f"{path} of {self.root} is a broken symbolic link, so no file can be written there."
            )
            raise StorageError(msg, _MOVE_AWAY) from error
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            msg = f"{path} of {self.root} is {kind}, so no file can be written in its place."
            raise StorageError(msg, _MOVE_AWAY)

    def _is_root_unmoved(self) -> bool:
        """Return whether the root's real path is unchanged; checked again for a new directory."""
        try:
            status = os.stat(self._root)  # noqa: PTH116 - called for every file
        except OSError:
            return False
        directory = (status.st_dev, status.st_ino)
        if directory != self._verified_root and os.path.realpath(self._root) == self._real_root:
            self._verified_root = directory
        return directory == self._verified_root

    def _has_no_links(self, path: str) -> bool:
        place = str(self._root)
        for name in path.split("/"):
            place = f"{place}/{name}"
            try:
                if stat.S_ISLNK(os.lstat(place).st_mode):
                    return False
            except FileNotFoundError:
                return True
            except (OSError, ValueError):
                return False
        return True

    def _stat_inside(self, path: str) -> FileStatus | None:
        """Return the file's status, None also for a link leading out of the table."""
        try:
            return self.stat(path)
        except PathOutsideRootError:
            return None

    def _walk(self, folder: str, file_of: _FileOf[File]) -> Iterator[File]:
        folders = [folder]
        while folders:
            with _errors_of("list", folders[-1]):
                files, below = self._list_folder(folders.pop(), file_of)
            yield from files
            folders += below

    def _list_folder(self, folder: str, file_of: _FileOf[File]) -> tuple[list[File], list[str]]:
        """List the files and folders of a folder; nothing if it may not be listed."""
        inside = f"{folder}/" if folder else ""
        files: list[File] = []
        below: list[str] = []
        try:
            with self._open_folder(folder) as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
                    path = inside + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        below.append(path)
                    elif (file := file_of(path, entry)) is not None:
                        files.append(file)
        except _NOT_LISTED:
            return [], []
        return files, below

    def _status_of(self, path: str, entry: os.DirEntry[str]) -> FileStatus | None:
        if entry.is_symlink():
            return self._stat_inside(path)
        file = _regular(entry, follow_symlinks=False)
        return None if file is None else _status(path, file)

    def _path_of(self, path: str, entry: os.DirEntry[str]) -> str | None:
        if entry.is_symlink():
            return None if self._stat_inside(path) is None else path
        return path if entry.is_file(follow_symlinks=False) else None

    @contextmanager
    def _open_folder(self, folder: str) -> Iterator[int]:
        """Open a folder by descriptor, so replacing its path has no effect."""
        descriptor = os.open(f"{self._root}/{check_path(folder)}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            now = os.stat(self.locate(folder))  # noqa: PTH116 - as in `stat`
            if not os.path.samestat(os.fstat(descriptor), now):
                raise _MovedError(errno.ESTALE, "another directory is there now", folder)
            yield descriptor
        finally:
            os.close(descriptor)

    def _scan(self, directory: str, start: str) -> list[FileStatus]:
        prefix = f"{directory}/" if directory else ""
        try:
            with os.scandir(self.locate(directory)) as entries:
                later = (entry for entry in entries if entry.name >= start)
                regular_files = ((item.name, _regular(item)) for item in later)
                return [
                    _status(prefix + name, file) for name, file in regular_files if file is not None
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _write_temporary(self, target: Path, pieces: Iterable[bytes], *, durable: bool) -> Path:
        make_directories(target.parent, self._root)
        temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}.tmp"
        try:
            with temporary.open("xb") as file:
                file.writelines(pieces)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
        except BaseException:
            unlink_quietly(temporary)
            raise
        return temporary


def _group_by_folder(paths: Iterable[str]) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Group paths and their names by folder."""
    folders: dict[str, list[tuple[str, str]]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append((path, name))
    return folders


def _status(path: str, status: os.stat_result) -> FileStatus:
    """Build a file's status; its etag changes with every rewrite."""
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}"
    return FileStatus(path, status.st_size, status.st_mtime_ns // 1_000_000, etag)


def _stat_name(name: str, descriptor: int) -> os.stat_result | None:
    """Return the status of a name in a folder, None if it does not exist."""
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return None
        raise


def _regular(entry: os.DirEntry[str], *, follow_symlinks: bool = True) -> os.stat_result | None:
    """Return the status of a regular file, None for anything else and for deleted files."""
    try:
        status = entry.stat(follow_symlinks=follow_symlinks)
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return None
        raise
    return status if stat.S_ISREG(status.st_mode) else None


@contextmanager
def _errors_of(verb: str, path: str) -> Iterator[None]:
    """Convert the system's errors to the engine's."""
    try:
        yield
    except FileExistsError as error:
        msg = f"{path} exists already."
        raise FileExistsAlreadyError(msg) from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) in _NOTHING_THERE:
            msg = f"There is no file {path}."
            raise FileMissingError(msg) from error
        raise system_failure(verb, path, error) from error


def system_failure(verb: str, path: str, error: OSError | ValueError) -> StorageError:
    """Build the engine's error for a system error on a file."""
    code = errno.errorcode.get(getattr(error, "errno", None) or 0, type(error).__name__)
    msg = f"Could not {verb} {path}: {getattr(error, 'strerror', None) or error} ({code})."
    return StorageError(msg, "Check the disk and the permissions, then try again.")


def read_piece(place: str, start: int, length: int | None) -> bytes:
    """Read at most `length` bytes of a file from `start`; refuse a directory."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "a directory", place)
        left = max(0, status.st_size - start)
        left = left if length is None else min(left, length)
        data = os.pread(descriptor, left, start)
        while len(data) < left and (
            more := os.pread(descriptor, left - len(data), start + len(data))
        ):
            data += more
        return data
    finally:
        os.close(descriptor)


@contextmanager
def one_at_a_time(target: Path) -> Iterator[bool]:
    """Hold a lock while writing under a name only one writer gets: waiting writers find it taken.

    Other processes do not wait, nor does a forked child for threads it does not have. A disk may
    respond to a thread late or never, and names of other disks share its lock: after a long wait a
    writer continues without it (False), and so do later ones.
    """
    place = hash(target) % len(_LOCKS)
    lock = _LOCKS[place]
    held = lock.acquire(timeout=_LONGEST_WAIT_S)
    if not held and _LOCKS[place] is lock:
        _LOCKS[place] = threading.Lock()
    try:
        yield held
    finally:
        if held:
            lock.release()


def _renew_locks() -> None:
    _LOCKS[:] = [threading.Lock() for _ in _LOCKS]


os.register_at_fork(after_in_child=_renew_locks)


class AnswerLostError(OSError):
    """It is unknown whether a file got its name, and the file cannot be checked."""


def link_file(temporary: Path, target: Path) -> None:
    """Link the finished file under its name; after a lost response, check the file itself.

    Raises:
        AnswerLostError: it could not be checked.
        OSError: it did not get the name.
    """
    try:
        os.link(temporary, target)
    except OSError as error:
        if not _is_same(temporary, target, error):
            raise


def _is_same(temporary: Path, target: Path, failure: OSError) -> bool:
    try:
        return os.path.samestat(target.stat(), temporary.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if failure.errno in _REFUSALS:
            return False
        raise AnswerLostError(failure.errno, failure.strerror) from error


def make_directories(folder: Path, root: Path) -> None:
    """Create a directory and its parents, each synced into the one above."""
    if folder.is_dir():
        return
    if folder != root.parent and folder.parent != folder:
        make_directories(folder.parent, root)
    folder.mkdir(exist_ok=True, parents=True)
    sync(folder.parent)


def sync(path: Path) -> None:
    """Make a file, or a directory's names, survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unlink_quietly(path: Path) -> None:
    """Delete a temporary file; a leftover is invisible to readers, and VACUUM removes it."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
