"""Local files at the level of the system: reading, linking, syncing. Failures are `OSError`s."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors after which a file certainly has no new name."""
_LOCKS = [threading.Lock() for _ in range(64)]
_LONGEST_WAIT_S = 2.0
"""Time limit of waiting for another write; a second writer of one name then fails to link."""


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
    """Have a file, or a directory's names, survive the machine."""
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
