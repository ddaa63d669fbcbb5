"""The user named by a proxy, in a header that it sets after its own authentication.

The header counts only from a peer in PROXY_ADDRESSES: the address of the connection, which no
header can change. From any other peer it is ignored.
"""

import ipaddress
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from lakeui.sign_on import sessions
from lakeui.sign_on.configuration import is_proxy_enabled, proxy_networks
from lakeui.sign_on.errors import InvalidNameError, ProxyHeaderError, SignOnError, render_refusal
from lakeui.sign_on.models import Way
from lakeui.sign_on.people import Identity, account_of

ISSUER = "proxy"
_SAID = "sign_on_said"
_MAX_SUBJECT = 255
_FOR_PROGRAMS = ("/api/", "/livez", "/readyz", "/metrics")


class ProxyMiddleware:
    """Signs in the user named by the proxy, and out once it names nobody or somebody else."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        scheme = request.headers.get("Authorization", "").partition(" ")[0].lower()
        is_token = request.path.startswith("/api/") and scheme == "bearer"
        if is_proxy_enabled() and not is_token:
            try:
                _follow(request)
            except SignOnError as error:
                if not request.path.startswith(_FOR_PROGRAMS):
                    return render_refusal(request, error)
        return self.get_response(request)


def _follow(request: HttpRequest) -> None:
    came_so = request.session.get(sessions.WAY) == Way.PROXY
    try:
        said = _read_headers(request)
    except SignOnError:
        logout(request)
        raise
    if said is None:
        if came_so:
            logout(request)
        return
    if came_so and request.user.is_authenticated and request.session.get(_SAID) == said:
        return
    if request.user.is_authenticated:
        logout(request)
    name, *groups = said
    identity = Identity(Way.PROXY, ISSUER, name, name, groups=tuple(groups) or None)
    sessions.begin(request, account_of(identity), Way.PROXY)
    request.session[_SAID] = said


def _read_headers(request: HttpRequest) -> list[str] | None:
    """Return name and groups, in one order, from the proxy's headers; None without a name."""
    name = request.headers.get(settings.PROXY_USER_HEADER, "").strip()
    if not name or not _is_proxy(request.META.get("REMOTE_ADDR", "")):
        return None
    header = settings.PROXY_GROUPS_HEADER
    for used in filter(None, (settings.PROXY_USER_HEADER, header)):
        if _count(request, used) > 1:
            raise ProxyHeaderError(used)
    if len(name) > _MAX_SUBJECT or not name.isprintable():
        raise InvalidNameError(name)
    groups = request.headers.get(header, "") if header else ""
    return [name, *sorted({part.strip() for part in groups.split(",")} - {""})]


def _count(request: HttpRequest, header: str) -> int:
    """Count the occurrences of a header: Django joins them by commas, like a list of groups."""
    name = header.lower().encode("latin-1")
    scope: dict[str, Any] = getattr(request, "scope", {})  # of ASGI
    return sum(key.lower() == name for key, _ in scope.get("headers", ()))


def _is_proxy(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in proxy_networks())
