"""The address a request comes from: one answer for rates, the audit log and the log.

A client may send any `X-Forwarded-For`. Each proxy appends the address of its own peer at the end,
so with n trusted proxies the n-th address from the right is the last that a trusted one wrote. The
web server must hand the peer's own address on: uvicorn runs with `--no-proxy-headers`.
"""

import ipaddress
import re
from ipaddress import IPv4Address, IPv6Address

from django.conf import settings
from django.http import HttpRequest

_IPV6_CUSTOMER_BITS = 64
_MAX_TEXT = 64
_WITH_PORT = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<four>[^:\[\]]*))(?::\d{1,5})?")
"""`192.0.2.1`, `192.0.2.1:443`, `[2001:db8::1]`, `[2001:db8::1]:443`."""


def client_address(request: HttpRequest) -> str | None:
    """The client's address in its canonical form; None where nothing tells it (a Unix socket, say).

    The peer's address with TRUSTED_PROXIES=0, and wherever the header has no address at the place
    that the trusted proxies vouch for: such a request did not come through all of them.
    """
    return _read_forwarded_address(request, settings.TRUSTED_PROXIES) or _canonical(
        request.META.get("REMOTE_ADDR", "")
    )


def client_network(request: HttpRequest) -> str:
    """What tries are counted by: the address, or its /64 where it is IPv6.

    One customer has at least a /64 and could count from zero with each of its addresses.
    """
    address = client_address(request) or ""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network(f"{address}/{_IPV6_CUSTOMER_BITS}", strict=False))


def _read_forwarded_address(request: HttpRequest, proxies: int) -> str | None:
    """What the outermost trusted proxy says of its peer. Several header lines count as one."""
    if proxies <= 0:
        return None
    hops = request.headers.get("X-Forwarded-For", "").rsplit(",", proxies)
    return _canonical(hops[-proxies]) if len(hops) >= proxies else None


def _canonical(text: str) -> str | None:
    """An address without port, brackets and zone; an IPv4 address within IPv6 as IPv4."""
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
