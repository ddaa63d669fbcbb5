"""Turns of threads in one process that commit to one table.

Each version needs the one before it. Of 32 threads racing for it, 31 waste their preparation each
time; the thread with the turn checks the commits before it, and lands. Processes race as before.
"""

import os
import threading
from time import monotonic
from types import TracebackType

_LONGEST_WAIT_S = 1.0
"""Time limit of a wait: two threads waiting for each other then continue and race."""
_LONGEST_TURN_S = 60.0
"""Time limit of a turn: an interrupted thread may never leave its turn."""


class _Queue:
    """The threads waiting for a turn at a table.

    `left` counts the finished turns, `since_s` is the time the last one began or ended.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.left = 0
        self.since_s = monotonic()


_QUEUES = [_Queue() for _ in range(256)]


class Turn:
    """The turn at one table: taken when it is needed, and left in the end."""

    def __init__(self, root: str) -> None:
        self._place = hash(root) % len(_QUEUES)
        self._queue = _QUEUES[self._place]
        self._left_before = self._queue.left
        self._is_held = False

    def take(self) -> bool:
        """Take the turn; return whether another thread left it meanwhile and may have committed."""
        self._is_held = self._queue.lock.acquire(timeout=_LONGEST_WAIT_S)
        if self._is_held:
            self._queue.since_s = monotonic()
        elif monotonic() - self._queue.since_s > _LONGEST_TURN_S:
            _QUEUES[self._place] = _Queue()
        return not self._is_held or self._queue.left != self._left_before

    def __enter__(self) -> "Turn":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_held:
            self._queue.left += 1
            self._queue.since_s = monotonic()
            self._queue.lock.release()


def _renew_locks() -> None:
    """Reset the locks in a forked child, which lacks the threads that held them."""
    _QUEUES[:] = [_Queue() for _ in _QUEUES]


os.register_at_fork(after_in_child=_renew_locks)
