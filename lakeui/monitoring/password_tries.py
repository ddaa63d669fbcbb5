"""Counts recent failed sign-ins. After a few tries nothing is compared for a while.

A try is counted before the password is compared, by one atomic count in the cache, so that
concurrent requests get no more tries than sequential ones. Web processes count together if
`CACHE_URL` names a Redis.
"""

import hashlib
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.core.cache import cache
from django.http import HttpRequest
from django.utils import timezone

from lakeui.monitoring.client_address import client_network

TRIES = 5
TRIES_OF_AN_ADDRESS = 20
"""Failed tries from one address within a pause, for any names."""
PAUSE = timedelta(minutes=5)


class PasswordTries:
    """Tries of one subject: a name from an address, or a session's own password."""

    def __init__(self, *subject: object, most: int = TRIES, slides: bool = True) -> None:
        """Count tries of a subject.

        Args:
            subject: the parts of its key.
            most: tries before a pause.
            slides: whether each try restarts the time, or only the first.
        """
        text = "\0".join(map(str, subject))
        self._most, self._slides = most, slides
        self._key = f"lakeui.password-tries.{hashlib.sha256(text.encode()).hexdigest()}"

    @classmethod
    def from_request(cls, request: HttpRequest, name: str) -> "PasswordTries":
        """Return the tries of a name from the request's network, in any spelling of the name."""
        same = unicodedata.normalize("NFKC", name).strip().casefold()
        return cls("sign-in", same, client_network(request))

    @classmethod
    def from_address(cls, request: HttpRequest) -> "PasswordTries | None":
        """Return the tries from the request's network for any name; None if the network is unknown.

        A try does not restart the time: an office behind one address has few failed tries in any
        five minutes, but may have some in every five minutes of a day.
        """
        network = client_network(request)
        if not network:  # everybody would be counted as one
            return None
        return cls("address", network, most=TRIES_OF_AN_ADDRESS, slides=False)

    def take(self) -> int:
        """Count a try before it is made; return how many are left, negative during a pause."""
        seconds = PAUSE.total_seconds()
        is_first = cache.add(self._key, 0, seconds)
        try:
            left = self._most - int(cache.incr(self._key))
        except ValueError:  # the pause ended a moment ago
            left = self._most - 1
        if left >= 0 and (self._slides or is_first):
            cache.touch(self._key, seconds)
            cache.set(self._until_key, (timezone.now() + PAUSE).timestamp(), seconds)
        return left

    @property
    def paused_until(self) -> datetime:
        """The end of the pause after the last try."""
        until = cache.get(self._until_key)
        return timezone.now() if until is None else datetime.fromtimestamp(until, UTC)

    def give_back(self) -> None:
        """Uncount the last try; the others stay counted."""
        with suppress(ValueError):  # they are forgotten already
            cache.incr(self._key, -1)

    def forget(self) -> None:
        """Forget all tries: the password matched."""
        cache.delete(self._key)
        cache.delete(self._until_key)

    @property
    def _until_key(self) -> str:
        return f"{self._key}.until"
