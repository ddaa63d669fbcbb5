"""The client's address of a request: one answer for rates, the audit log and the log.

A client may send any `X-Forwarded-For`. Each proxy appends the address of its own peer at the end,
so with n trusted proxies the n-th address from the right is the last written by a trusted one. The
web server must pass the peer's own address on: uvicorn runs with `--no-proxy-headers`.
"""

import ipaddress
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest
from django_structlog.middlewares import RequestMiddleware

_IPV6_CUSTOMER_BITS = 64
_MAX_TEXT = 64
_WITH_PORT = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<four>[^:\[\]]*))(?::\d{1,5})?")
"""`192.0.2.1`, `192.0.2.1:443`, `[2001:db8::1]`, `[2001:db8::1]:443`."""


def client_address(request: HttpRequest) -> str | None:
    """Return the client's address in canonical form; None if unknown (a Unix socket, say).

    It is the peer's address with TRUSTED_PROXIES=0, and if the header has no address at the
    position for which the trusted proxies vouch: such a request bypassed some of them.
    """
    forwarded = request.headers.get("X-Forwarded-For", "")
    return _find_address(request.META.get("REMOTE_ADDR", ""), forwarded)


def client_network(request: HttpRequest) -> str:
    """Return the network for counting tries: the address, or its /64 for IPv6.

    One customer has at least a /64 and could restart the count with each address.
    """
    return _network_of(client_address(request))


def scope_network(scope: Mapping[str, Any]) -> str:
    """Return the same of a request that Django has not read yet."""
    lines = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    peer = (scope.get("client") or ("",))[0]
    return _network_of(_find_address(peer, b",".join(lines).decode("latin-1")))


def _network_of(address: str | None) -> str:
    if address is None or ":" not in address:
        return address or ""
    return str(ipaddress.ip_network(f"{address}/{_IPV6_CUSTOMER_BITS}", strict=False))


def _find_address(peer: str, forwarded: str) -> str | None:
    return _read_forwarded_address(forwarded, settings.TRUSTED_PROXIES) or _canonical(peer)


def _read_forwarded_address(forwarded: str, proxies: int) -> str | None:
    """Return the outermost trusted proxy's peer. Several header lines count as one."""
    if proxies <= 0:
        return None
    hops = forwarded.rsplit(",", proxies)
    return _canonical(hops[-proxies]) if len(hops) >= proxies else None


def _canonical(text: str) -> str | None:
    """Return an address without port, brackets and zone; an IPv4 address within IPv6 as IPv4."""
    text = text.strip()
    if not text or len(text) > _MAX_TEXT:
        return None
    if parts := _WITH_PORT.fullmatch(text):
        text = parts["six"] or parts["four"] or ""
    try:
        address: IPv4Address | IPv6Address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or IPv6Address(int(address))
    return str(address)


class RequestLogMiddleware(RequestMiddleware):
    """Names the client as rates and the audit log do; django-structlog believes any header."""

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        structlog.contextvars.bind_contextvars(ip=client_address(request))

    @staticmethod
    def bind_user_id(request: HttpRequest) -> None:
        """Bind the user's id from the database; if that is unreachable, the view reports it."""
        try:
            RequestMiddleware.bind_user_id(request)
        except (DatabaseError, InterfaceError):
            structlog.contextvars.bind_contextvars(user_id=None)
