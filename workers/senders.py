"""Threads of a light worker that wait for external servers, so that its pool never does.

A hanging webhook occupies a thread until its timeout, and there may be more of them than the pool
has threads: then no table would be mirrored and no lost job found meanwhile.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from celery.signals import worker_shutdown
from django.db import close_old_connections

from lakeui.monitoring.alerting.channels import MOST_CHANNELS

logger = logging.getLogger(__name__)


class Deliver(Protocol):
    """Sends due messages; calls `ends` before each message to stop early."""

    def __call__(self, *, ends: Callable[[], bool]) -> object: ...


class Senders:
    """Up to a number of threads, started on demand; one thread sends at a time for each key."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="sender")
        self._lock = threading.Lock()
        self._busy: set[object] = set()
        self._ended = threading.Event()

    def take(self, key: object, deliver: Deliver) -> bool:
        """Send in a thread, unless the key is busy or the worker ends; return whether it does."""
        with self._lock:
            if key in self._busy or self._ended.is_set():
                return False
            self._busy.add(key)
        self._pool.submit(self._send, key, deliver)
        return True

    def end(self) -> None:
        """Start nothing more; running attempts end in their time."""
        with self._lock:
            self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, key: object, deliver: Deliver) -> None:
        try:
            deliver(ends=self._ended.is_set)
        except Exception:  # such as the database: claimed rows are due again when their lease ends
            logger.exception("What %s has to send could not be sent", key)
        finally:
            close_old_connections()
            with self._lock:
                self._busy.discard(key)


SENDERS = Senders(MOST_CHANNELS + 10)
"""A thread for each channel of alerts and for lineage: however many hang, the next one is served at once."""


@worker_shutdown.connect
def end_senders(**_: object) -> None:
    """Leave pending messages to other workers."""
    SENDERS.end()
