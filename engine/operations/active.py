"""Operations that are running in this process: what they stage is named by no log yet."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_running: dict[str, dict[str, tuple[int, str]]] = {}
_lock = threading.Lock()


@contextmanager
def running(uri: str, started_ms: int, what: str = "a write") -> Iterator[None]:
    """An operation that may write files of a table."""
    key = uuid.uuid4().hex
    with _lock:
        _running.setdefault(uri, {})[key] = started_ms, what
    try:
        yield
    finally:
        with _lock:
            _running[uri].pop(key)
            if not _running[uri]:
                del _running[uri]


def oldest_start_ms(uri: str) -> int | None:
    """When the oldest running operation on a table began, None where there is none."""
    with _lock:
        return min((since for since, _ in _running.get(uri, {}).values()), default=None)


def running_writers(uri: str) -> tuple[str, ...]:
    """The operations that are running on a table, the oldest first."""
    with _lock:
        return tuple(what for _, what in sorted(_running.get(uri, {}).values()))
