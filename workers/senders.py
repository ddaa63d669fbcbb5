"""Threads of a light worker that wait for other people's servers, so that its pool never does.

A webhook that hangs takes a place for as long as a try may last, and there may be more of them than the
pool has threads: then no table would be mirrored and no lost job found meanwhile.
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
    """Sends what is due, and asks before each message whether to end."""

    def __call__(self, *, ends: Callable[[], bool]) -> object: ...


class Senders:
    """At most so many threads, which start when they are needed; what has one key is sent by one at a time."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="sender")
        self._lock = threading.Lock()
        self._busy: set[object] = set()
        self._ended = threading.Event()

    def take(self, key: object, deliver: Deliver) -> bool:
        """Have it sent, unless that of the same key is under way or the worker ends; whether it is."""
        with self._lock:
            if key in self._busy or self._ended.is_set():
                return False
            self._busy.add(key)
        self._pool.submit(self._send, key, deliver)
        return True

    def end(self) -> None:
        """Begin nothing more; tries that are under way end in their time."""
        with self._lock:
            self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, key: object, deliver: Deliver) -> None:
        try:
            deliver(ends=self._ended.is_set)
        except Exception:  # the database, say: what was claimed is due again when its lease ends
            logger.exception("What %s has to send could not be sent", key)
        finally:
            close_old_connections()
            with self._lock:
                self._busy.discard(key)


SENDERS = Senders(MOST_CHANNELS + 10)
"""A thread for each channel of alerts and for lineage: however many hang, the next one is served at once."""


@worker_shutdown.connect
def end_senders(**_: object) -> None:
    """Leave what is not under way to other workers."""
    SENDERS.end()
