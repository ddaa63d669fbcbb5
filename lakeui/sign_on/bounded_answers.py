"""Requests to the OpenID provider, bounded in bytes and in time.

The timeout of `requests` applies to one read: a slow provider would delay a sign-in without limit,
and an endless answer would fill the memory.
"""

import socket
from threading import Timer
from typing import Any

from authlib.integrations.django_client import DjangoOAuth2App
from authlib.integrations.requests_client import OAuth2Session
from django.conf import settings
from requests import ConnectionError as LineError
from requests import Response
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

MAX_BYTES = 1 << 20
_CHUNK = 1 << 14
_MAX_REDIRECTS = 3


class _Line(HTTPConnection):
    """A connection that is cut at its deadline."""

    _cutter: Timer | None = None

    def connect(self) -> None:
        super().connect()
        self._cutter = Timer(settings.OIDC_TIMEOUT_SECONDS, _cut, [self.sock])
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
                msg = "more than an answer of a provider can be"
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


def _cut(line: socket.socket) -> None:
    try:
        socket.socket.shutdown(line, socket.SHUT_RDWR)
    except OSError:  # closed already
        return
