"""How often sign-in failed lately. After a few tries nothing is compared for a while.

A try is counted before the password is compared, by one atomic count in the cache, so that many
requests at once get no more tries than one after the other. Web processes count together where
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
"""Tries that fail from one address within a pause, whatever names they give."""
PAUSE = timedelta(minutes=5)


class PasswordTries:
    """Tries of one subject, whatever it is: a name from an address, a session's own password."""

    def __init__(self, *subject: object, most: int = TRIES, slides: bool = True) -> None:
        """Count tries of a subject.

        Args:
            subject: the parts of its key.
            most: tries before a pause.
            slides: whether each try starts the time anew, or only the first.
        """
        text = "\0".join(map(str, subject))
        self._most, self._slides = most, slides
        self._key = f"lakeui.password-tries.{hashlib.sha256(text.encode()).hexdigest()}"

    @classmethod
    def from_request(cls, request: HttpRequest, name: str) -> "PasswordTries":
        """Tries of a name from where the request comes. One name however it is typed."""
        same = unicodedata.normalize("NFKC", name).strip().casefold()
        return cls("sign-in", same, client_network(request))

    @classmethod
    def from_address(cls, request: HttpRequest) -> "PasswordTries | None":
        """Tries from where the request comes, whatever the name; None where nothing tells the address.

        The time does not start anew with each try: an office behind one address has few tries that
        fail in any five minutes, but may have some in every five minutes of a day.
        """
        network = client_network(request)
        if not network:  # everybody would be counted as one
            return None
        return cls("address", network, most=TRIES_OF_AN_ADDRESS, slides=False)

    def take(self) -> int:
        """Count a try that is about to be made; how many are left after it, negative in a pause."""
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
        """When the pause that follows the last try ends."""
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
