"""Threads of one process that commit to one table take turns.

Each version needs the one before it. Of 32 threads that race for it, 31 prepare theirs for nothing
each time; whoever has the turn checks what landed meanwhile, and lands. Processes race as before.
"""

import os
import threading
from types import TracebackType

_LONGEST_WAIT_S = 1.0
"""Whoever has the turn may itself wait for one who waits for it: then both go on, and race."""
_LOCKS = [threading.RLock() for _ in range(256)]


class Turn:
    """The turn at one table: taken when it is needed, and left in the end."""

    def __init__(self, root: str) -> None:
        self._lock = _LOCKS[hash(root) % len(_LOCKS)]
        self._is_held = False

    def take(self) -> bool:
        """Whether it was waited for, so that others may have landed meanwhile."""
        self._is_held = self._lock.acquire(blocking=False)
        if self._is_held:
            return False
        self._is_held = self._lock.acquire(timeout=_LONGEST_WAIT_S)
        return True

    def __enter__(self) -> "Turn":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_held:
            self._lock.release()


def _renew_locks() -> None:
    """A fork has none of the threads that held them."""
    _LOCKS[:] = [threading.RLock() for _ in _LOCKS]


os.register_at_fork(after_in_child=_renew_locks)
