"""OpenID Connect: the code flow with PKCE, by Authlib.

Authlib creates and compares state, nonce and code verifier, keeps them in the session for one
answer, and checks the ID token's signature and times. This module sets the required issuer and
audience, and excludes algorithms whose keys others have. The provider's metadata and keys are read
anew for each sign-in, so that a change of keys needs nothing here.

Requests to the provider are bounded in bytes and in time. The timeout of `requests` applies to one
read: a slow provider would delay a sign-in without limit, and an endless answer would fill the
memory.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Any
from urllib.parse import urlencode

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App, OAuth, OAuthError
from authlib.integrations.requests_client import OAuth2Session
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import EmailField
from django.http import HttpRequest, HttpResponse
from joserfc.errors import JoseError
from requests import ConnectionError as LineError
from requests import RequestException, Response
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from lakeui.sign_on.errors import (
    NotBegunError,
    ProviderRefusedError,
    ProviderUnavailableError,
    TokenRefusedError,
)
from lakeui.sign_on.models import Way
from lakeui.sign_on.people import Identity

_WELL_KNOWN = "/.well-known/openid-configuration"
_ASYMMETRIC = ("RS", "PS", "ES", "Ed")
_LEEWAY_S = 60
_NAME = "openid"  # in the session
_MOST_BEGUN = 10  # sign-ins of one browser: tabs, and abandoned tries
_MAX_HINT = 4_000  # servers refuse addresses of 8,000
_MAX_SUBJECT = 255  # as the specification has it
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")

MAX_BYTES = 1 << 20
_CHUNK = 1 << 14
_MAX_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """The identity from the provider, and the data for signing out there."""

    identity: Identity
    id_token: str  # "" if too long for an address, as with thousands of groups
    end_session_endpoint: str


def begin(request: HttpRequest, callback: str) -> HttpResponse:
    """Begin a sign-in at the provider, which answers to the address `callback`.

    Raises:
        ProviderUnavailableError: it is unreachable.
    """
    with _refusals():
        response: HttpResponse = _client().authorize_redirect(request, callback)
    begun = [key for key in dict(request.session) if key.startswith(f"_state_{_NAME}_")]
    for key in sorted(begun, key=lambda key: request.session[key]["exp"])[:-_MOST_BEGUN]:
        del request.session[key]
    return response


def finish(request: HttpRequest) -> ProviderAnswer:
    """Return the provider's answer to a sign-in that this browser began.

    Raises:
        SignOnError: the person is refused, with the reason.
    """
    states, state = DjangoIntegration(_NAME), request.GET.get("state", "")
    if not states.get_state_data(request.session, state):  # repeat no text of a link
        raise NotBegunError
    if "error" in request.GET:  # Authlib would keep the state for another answer
        states.clear_state_data(request.session, state)
    said = request.GET.get("iss", "")  # RFC 9207
    if said and said != settings.OIDC_ISSUER:
        reason = f"its issuer is {said} instead of {settings.OIDC_ISSUER}"
        raise TokenRefusedError(reason)
    with _refusals():
        client = _client()
        token = client.authorize_access_token(
            request,
            leeway=_LEEWAY_S,
            claims_options={
                "iss": {"essential": True, "values": [settings.OIDC_ISSUER]},
                "aud": {"essential": True, "value": settings.OIDC_CLIENT_ID},
                "sub": {"essential": True},
            },
        )
        claims = token.get("userinfo")
        if not claims:
            reason = "the answer has no ID token"
            raise TokenRefusedError(reason)
        identity = _identity(_add_groups(client, token, claims))
        endpoint = str(client.server_metadata.get("end_session_endpoint") or "")
        id_token = str(token["id_token"])
        return ProviderAnswer(identity, id_token if len(id_token) <= _MAX_HINT else "", endpoint)


def end_address(endpoint: str, id_token: str, back: str) -> str:
    """Return the address to sign out at the provider, which then leads to `back`."""
    hint = {"id_token_hint": id_token} if id_token else {}
    client = {"client_id": settings.OIDC_CLIENT_ID}
    values = urlencode({**client, **hint, "post_logout_redirect_uri": back})
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{values}"


def reach() -> None:
    """Request the provider's metadata, as each sign-in does.

    Raises:
        ProviderUnavailableError: it is unreachable, or has another issuer name.
    """
    with _refusals():
        _client()


def _client() -> Any:  # noqa: ANN401 - Authlib has no types
    """Return a client with the provider's metadata, checked against the settings."""
    client = OAuth().register(
        _NAME,
        client_cls=BoundedApp,
        client_id=settings.OIDC_CLIENT_ID,
        client_secret=settings.OIDC_CLIENT_SECRET or None,
        server_metadata_url=settings.OIDC_ISSUER.rstrip("/") + _WELL_KNOWN,
        client_kwargs={
            "scope": settings.OIDC_SCOPES,
            "code_challenge_method": "S256",
            "default_timeout": settings.OIDC_TIMEOUT_SECONDS,
        },
    )
    metadata = client.load_server_metadata()
    issuer = metadata.get("issuer")
    if issuer != settings.OIDC_ISSUER:
        reason = f"its issuer is {issuer}, but OIDC_ISSUER is {settings.OIDC_ISSUER}"
        raise ProviderUnavailableError(reason)
    if missing := [name for name in _ENDPOINTS if not metadata.get(name)]:
        reason = f"its metadata lack {', '.join(missing)}"
        raise ProviderUnavailableError(reason)
    offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
    safe = [name for name in offered if str(name).startswith(_ASYMMETRIC)]
    metadata["id_token_signing_alg_values_supported"] = safe or ["RS256"]
    return client


def _add_groups(client: Any, token: Any, claims: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ANN401
    """Return the token's claims, with those of the userinfo endpoint if only it has the groups."""
    endpoint = client.server_metadata.get("userinfo_endpoint")
    if settings.OIDC_GROUPS_CLAIM in claims or not (settings.SIGN_ON_ROLES and endpoint):
        return claims
    more = client.userinfo(token=token)
    if more.get("sub") != claims["sub"]:
        reason = "the userinfo endpoint returned another subject"
        raise TokenRefusedError(reason)
    return {**more, **claims}


def _identity(claims: Mapping[str, Any]) -> Identity:
    names = (settings.OIDC_USERNAME_CLAIM, "preferred_username", "email", "sub")
    is_verified = claims.get("email_verified", True) is True
    subject = _subject(claims["sub"])
    return Identity(
        way=Way.OPENID,
        issuer=settings.OIDC_ISSUER,
        subject=subject,
        name=next((str(claims[name]) for name in names if claims.get(name)), subject),
        email=_email(claims.get("email")) if is_verified else "",
        groups=_groups(claims.get(settings.OIDC_GROUPS_CLAIM)),
    )


def _subject(value: object) -> str:
    """Return the subject; some providers send a number."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text or len(text) > _MAX_SUBJECT or not text.isprintable():
        reason = f"its subject is not a string of up to {_MAX_SUBJECT} printable characters"
        raise TokenRefusedError(reason)
    return text


def _email(value: object) -> str:
    """Return a valid address, else ""."""
    text = value if isinstance(value, str) else ""
    try:
        EmailField(blank=True).run_validators(text)
    except ValidationError:
        return ""
    return text


def _groups(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


@contextmanager
def _refusals() -> Iterator[None]:
    """Translate errors of Authlib and the network into errors with a remedy."""
    try:
        yield
    except MismatchingStateError:
        raise NotBegunError from None
    except OAuthError as error:
        raise ProviderRefusedError(error.description or error.error) from error
    except (JoseError, AuthlibBaseError) as error:
        raise TokenRefusedError(str(error).rstrip(".")) from error
    except RequestException as error:
        raise ProviderUnavailableError(type(error).__name__) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # an answer of another shape
        reason = f"its answer cannot be read ({type(error).__name__})"
        raise ProviderUnavailableError(reason) from error


class _Line(HTTPConnection):
    """A connection that is cut at its deadline."""

    _cutter: Timer | None = None

    def connect(self) -> None:
        super().connect()
        self._cutter = Timer(settings.OIDC_TIMEOUT_SECONDS, _shut_down, [self.sock])
        self._cutter.daemon = True
        self._cutter.start()

    def close(self) -> None:
        if self._cutter is not None:
            self._cutter.cancel()
        super().close()


class _TlsLine(_Line, HTTPSConnection):
    """A TLS connection that is cut at its deadline; `connect` first runs HTTPSConnection's."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Line


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsLine


class _BoundedAdapter(HTTPAdapter):
    """Reads each answer at once, redirects too."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def send(self, *args: Any, **kwargs: Any) -> Response:  # noqa: ANN401
        response = super().send(*args, **(kwargs | {"stream": True}))
        read = bytearray()
        for chunk in response.iter_content(_CHUNK):
            read += chunk
            if len(read) > MAX_BYTES:
                response.close()
                msg = "larger than the limit for a provider's answer"
                raise LineError(msg)
        response._content = bytes(read)
        return response


class _BoundedSession(OAuth2Session):  # type: ignore[misc]  # Authlib has no types
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.max_redirects = _MAX_REDIRECTS
        self.mount("https://", _BoundedAdapter())
        self.mount("http://", _BoundedAdapter())


class BoundedApp(DjangoOAuth2App):  # type: ignore[misc]  # as above
    """Authlib's client with bounded requests."""

    client_cls = _BoundedSession


def _shut_down(line: socket.socket) -> None:
    try:
        socket.socket.shutdown(line, socket.SHUT_RDWR)
    except OSError:  # closed already
        return
