"""Undelivered batches on disk: the oldest is sent first, or dropped first over the limit."""

import itertools
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"^[0-9]{20}-[0-9]+-[0-9]+-([0-9]+)\.json$")
_counter = itertools.count()


@dataclass(frozen=True, slots=True)
class SpooledBatch:
    """A batch on disk: its bytes, and its number of events."""

    path: Path
    body: bytes
    event_count: int


class Spool:
    """A directory of one person's batches. Several programs may share it; each method may fail softly.

    Nobody else may read it: batches name tables, conditions and people.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory, self._limit_bytes = directory, limit_bytes

    def add(self, body: bytes, event_count: int) -> int:
        """Add a batch; return how many events had to be dropped for it, including its own."""
        if len(body) > self._limit_bytes:
            return event_count
        try:
            self._make_directory()
            path = self._directory / _name(event_count)
            _write(path.with_suffix(".tmp"), body).replace(path)
        except OSError:
            return event_count
        return self._shrink()

    def oldest(self) -> SpooledBatch | None:
        """Return the next batch to send; None if there is none."""
        for path in self._paths():
            with suppress(OSError):  # sent by another program meanwhile
                return SpooledBatch(path, path.read_bytes(), _event_count(path))
        return None

    def remove(self, batch: SpooledBatch) -> bool:
        """Remove a sent batch; return whether it is gone."""
        try:
            batch.path.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def _shrink(self) -> int:
        """Drop the oldest batches until the others are within the bound."""
        dropped, sizes = 0, []
        for path in self._paths():
            with suppress(OSError):
                sizes.append((path, path.stat().st_size))
        total = sum(size for _, size in sizes)
        for path, size in sizes:
            if total <= self._limit_bytes:
                break
            with suppress(OSError):
                path.unlink()
                dropped += _event_count(path)
            total -= size
        return dropped

    def _paths(self) -> list[Path]:
        try:
            return sorted(path for path in self._directory.iterdir() if _NAME.match(path.name))
        except OSError:
            return []

    def _make_directory(self) -> None:
        """Create the directory, or check that only this user may write to it."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._directory.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not is_own or status.st_mode & 0o022:
            msg = f"other users can write to {self._directory}"
            raise PermissionError(msg)


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def _write(path: Path, body: bytes) -> Path:
    """Write a new file; remove it if the disk is full."""
    try:
        with os.fdopen(os.open(path, _NEW_FILE, 0o600), "wb") as file:
            file.write(body)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def _name(event_count: int) -> str:
    return f"{time.time_ns():020d}-{os.getpid()}-{next(_counter)}-{event_count}.json"


def _event_count(path: Path) -> int:
    match = _NAME.match(path.name)
    return int(match[1]) if match else 0
