"""Connections that end at a deadline: with a timeout per read alone, a slow peer never ends."""

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Cutter:
    """Shuts a connection down at a moment, unless it is stopped before."""

    def __init__(self, line: socket.socket, until: float) -> None:
        self._line = line.dup()  # TLS takes the descriptor of the first away
        self._timer = threading.Timer(max(0.0, until - monotonic()), self._cut)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Leave the connection to itself."""
        self._timer.cancel()
        self._line.close()

    def _cut(self) -> None:
        try:
            self._line.shutdown(socket.SHUT_RDWR)
        except OSError:  # closed already
            return
        finally:
            self._line.close()


def connect_to_first(addresses: Sequence[tuple[Address, int]], until: float) -> socket.socket:
    """Connect to the first address that accepts; each gets an equal part of the time left.

    Raises:
        OSError: none accepts, or not in time.
    """
    failure: OSError | None = None
    for place, (address, port) in enumerate(addresses):
        left = (until - monotonic()) / (len(addresses) - place)
        if left <= 0:
            break
        try:
            return socket.create_connection((str(address), port), timeout=left)
        except OSError as error:
            failure = error
    raise failure or TimeoutError


def resolve_host(
    host: str, port: int, until: float, look_up: Callable[..., Iterable[Any]] = socket.getaddrinfo
) -> list[Address]:
    """Return the addresses of a name, within a time limit for its name server.

    Raises:
        OSError, UnicodeError: it has none, or none in time.
    """
    answer: Future[Iterable[Any]] = Future()

    def ask() -> None:
        try:
            answer.set_result(look_up(host, port, type=socket.SOCK_STREAM))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()  # which nothing can interrupt
    places = answer.result(max(0.0, until - monotonic()))
    return [ipaddress.ip_address(str(place[4][0]).partition("%")[0]) for place in places]
