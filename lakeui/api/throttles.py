"""Rate limits of a caller; beyond them: 429 with Retry-After. Rates are settings.

Counted in windows that begin with a caller's first request, by one atomic count in the cache, which
web processes share if `CACHE_URL` names a Redis.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.throttling import (
    AnonRateThrottle,
    BaseThrottle,
    SimpleRateThrottle,
    UserRateThrottle,
)

from lakeui.event_streams import was_held
from lakeui.monitoring.client_address import client_network


class WindowThrottle(SimpleRateThrottle):
    """A number of requests from the first one until its window ends."""

    duration: int
    num_requests: int

    def allow_request(self, request: Request, view: Any) -> bool:
        who = self.get_cache_key(request, view)
        if who is None or was_held(request._request):
            return True
        now = int(self.timer())
        end: Any = self.cache.get_or_set(who, now + self.duration, self.duration)
        self._end = int(end)
        counter = f"{who}.{self._end}"
        self.cache.add(counter, 0, self.duration + 1)
        try:
            return bool(self.cache.incr(counter) <= self.num_requests)
        except ValueError:  # the window ended a moment ago
            return True

    def wait(self) -> float:
        return max(1.0, self._end - self.timer())


class ByNetwork(BaseThrottle):
    """Counts anonymous callers by their network, as the audit log does."""

    def get_ident(self, request: Request) -> str:
        return client_network(request._request)


class FailedTokenThrottle(ByNetwork, WindowThrottle):
    """Counts invalid tokens by address. Valid tokens are never delayed."""

    scope = "token"

    def get_rate(self) -> str:
        return str(settings.API_RATE_ANONYMOUS)

    def get_cache_key(self, request: Request, view: Any) -> str:
        del view
        return str(self.cache_format % {"scope": self.scope, "ident": self.get_ident(request)})


class PersonThrottle(ByNetwork, WindowThrottle, UserRateThrottle):
    """Limits requests by person, tokens included."""

    def get_rate(self) -> str:
        return str(settings.API_RATE_PERSON)


class CatalogThrottle(PersonThrottle):
    """Limits requests to Unity Catalog's API by person: a commit takes several."""

    scope = "catalog"

    def get_rate(self) -> str:
        return str(settings.API_RATE_CATALOG)


class ReportThrottle(WindowThrottle):
    """Counts reports by token, or by person without one: no program delays another."""

    scope = "report"

    def get_rate(self) -> str:
        return str(settings.API_RATE_REPORTS)

    def get_cache_key(self, request: Request, view: Any) -> str | None:
        del view
        if not isinstance(request.user, User):
            return None
        token = getattr(request.auth, "public_id", None)
        who = f"token-{token}" if token else f"person-{request.user.pk}"
        return str(self.cache_format % {"scope": self.scope, "ident": who})


class AnonymousThrottle(ByNetwork, WindowThrottle, AnonRateThrottle):
    """Limits requests by address, of who has not signed in."""

    def get_rate(self) -> str:
        return str(settings.API_RATE_ANONYMOUS)
