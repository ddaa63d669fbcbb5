"""Register of the operations running in this process; no log names their staged files yet."""

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.storage.uri import real_place

RunningSince = Callable[[], int | None]
"""Returns the start of the oldest operation that may write elsewhere, None if there is none."""

_running: dict[str, dict[str, tuple[int, str]]] = {}
_lock = threading.Lock()


def nobody_runs() -> int | None:
    """Return None, for callers that know of no other process."""
    return None


@contextmanager
def track_operation(uri: str, started_ms: int, what: str = "a write") -> Iterator[None]:
    """Register a writing operation on a table for the duration of the block."""
    key, place = uuid.uuid4().hex, real_place(uri)
    with _lock:
        _running.setdefault(place, {})[key] = started_ms, what
    try:
        yield
    finally:
        with _lock:
            _running.get(place, {}).pop(key, None)  # missing in a forked child
            if not _running.get(place):
                _running.pop(place, None)


def oldest_start_ms(uri: str) -> int | None:
    """Return the start time of the oldest running operation on a table, None if there is none."""
    place = real_place(uri)
    with _lock:
        return min((since for since, _ in _running.get(place, {}).values()), default=None)


def list_active_writers(uri: str) -> tuple[str, ...]:
    """Return the operations running on a table, oldest first."""
    place = real_place(uri)
    with _lock:
        return tuple(what for _, what in sorted(_running.get(place, {}).values()))


def _begin_anew() -> None:
    """Reset the register in a forked child: the parent's threads and lock do not exist there."""
    global _lock
    _lock = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_begin_anew)
