"""The sign-on settings, read once at the start and refused there if they cannot work."""

import ipaddress
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import NoReturn
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from lakeui.catalog.roles import Role

EVERYBODY = "*"
NO_ROLE = "none"
_MAPPED_BITS = 96
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def check() -> None:
    """Read every setting of sign-on.

    Raises:
        ImproperlyConfigured: by these settings nobody could sign in, or the wrong people could.
    """
    _check_issuer()
    roles_of_groups()
    if bool(settings.PROXY_USER_HEADER) != bool(proxy_networks()):
        _refuse("PROXY_USER_HEADER and PROXY_ADDRESSES belong together. Set both, or neither.")
    if not (settings.LOCAL_ACCOUNTS or is_openid_enabled() or is_proxy_enabled()):
        _refuse("LOCAL_ACCOUNTS is false, so nobody can sign in. Set OIDC_ISSUER or a proxy.")
    if settings.SIGN_ON_SESSION_HOURS <= 0:
        _refuse(
            "SIGN_ON_SESSION_HOURS is not above 0. Set it to the hours that people stay signed in."
        )


def is_openid_enabled() -> bool:
    """Whether people may come from an OpenID provider."""
    return bool(settings.OIDC_ISSUER)


def is_proxy_enabled() -> bool:
    """Whether a proxy may name the user."""
    return bool(settings.PROXY_USER_HEADER)


def issuer_name() -> str:
    """Return the provider's name on the sign-in page."""
    return settings.OIDC_LABEL or urlsplit(settings.OIDC_ISSUER).hostname or ""


def roles_of_groups() -> Mapping[str, Role | None]:
    """Return the role of each provider group; None: it admits people and gives no role."""
    texts = settings.SIGN_ON_ROLES
    if not isinstance(texts, dict):
        _refuse('SIGN_ON_ROLES is not a JSON object such as {"data-engineers": "operator"}.')
    roles: dict[str, Role | None] = {}
    for group, label in texts.items():
        role = Role.from_label(str(label))
        if role is None and label != NO_ROLE:
            _refuse(f"SIGN_ON_ROLES: {label!r} is not a role. Use {_choices()} or {NO_ROLE}.")
        roles[str(group)] = role
    return roles


def proxy_networks() -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the addresses of proxies that may name the user."""
    try:
        networks = [ipaddress.ip_network(text.strip()) for text in settings.PROXY_ADDRESSES]
    except ValueError as error:
        _refuse(
            f"PROXY_ADDRESSES: {error}. Use addresses or networks, such as 10.0.0.7,10.1.0.0/16."
        )
    return tuple(map(_plain, networks))


def _plain(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """Return IPv4 as itself even if written as IPv6: peers are compared in this form."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


def _check_issuer() -> None:
    if not is_openid_enabled():
        return
    parts = urlsplit(settings.OIDC_ISSUER)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        _refuse("OIDC_ISSUER must begin with https://. http:// is only for this machine.")
    if not settings.OIDC_CLIENT_ID:
        _refuse("OIDC_CLIENT_ID is missing. Register this installation with the provider.")
    if "openid" not in settings.OIDC_SCOPES.split():
        _refuse("OIDC_SCOPES lacks openid, without which there is no ID token to check.")


def _choices() -> str:
    return ", ".join(role.label for role in Role)


def _refuse(problem: str) -> NoReturn:
    raise ImproperlyConfigured(problem)
