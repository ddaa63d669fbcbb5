"""Counters shared by web processes in Redis: requests, and failed sign-ins.

None of them is worth a failed page: an unreachable Redis counts as an empty one for a while, its
limits do not apply meanwhile, and the log records it. Values are JSON, so that nothing read from
Redis is ever run.
"""

import json
import logging
from collections.abc import Callable
from typing import TypeVar

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache
from redis import RedisError

from engine.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

PAUSE_S = 5.0
"""How long it is left alone after it did not answer."""
TIMEOUT_S = 0.5
R = TypeVar("R")


class JsonValues:
    """Serializes values: whole numbers as Redis counts them, anything else as JSON."""

    def dumps(self, value: object) -> int | bytes:
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> object:
        return json.loads(data)


class SharedCache(RedisCache):
    """Django's cache with JSON values; it fails as if it were empty."""

    def __init__(self, server: str, params: dict[str, object]) -> None:
        options = {
            "serializer": JsonValues,
            "socket_timeout": TIMEOUT_S,
            "socket_connect_timeout": TIMEOUT_S,
        }
        super().__init__(server, {"KEY_PREFIX": "lakeui"} | params | {"OPTIONS": options})
        self._clock: Clock = SystemClock()
        self._rests_until = 0.0

    def get(self, key: str, default: object = None, version: int | None = None) -> object:
        return self._try_call(lambda: super(SharedCache, self).get(key, default, version), default)

    def set(
        self,
        key: str,
        value: object,
        timeout: float | None = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> None:
        self._try_call(lambda: super(SharedCache, self).set(key, value, timeout, version), None)

    def add(
        self,
        key: str,
        value: object,
        timeout: float | None = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> bool:
        return self._try_call(
            lambda: super(SharedCache, self).add(key, value, timeout, version), True
        )

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self._try_call(lambda: super(SharedCache, self).incr(key, delta, version), delta)

    def touch(
        self, key: str, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        return self._try_call(lambda: super(SharedCache, self).touch(key, timeout, version), False)

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._try_call(lambda: super(SharedCache, self).delete(key, version), False)

    def _try_call(self, ask: Callable[[], R], otherwise: R) -> R:
        if self._clock.monotonic_s() < self._rests_until:
            return otherwise
        try:
            return ask()
        except RedisError as error:
            self._rests_until = self._clock.monotonic_s() + PAUSE_S
            logger.warning("The shared cache is unreachable: %s", type(error).__name__)
            return otherwise
