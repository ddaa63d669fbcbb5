"""One POST to a webhook: to an allowed address, within a time limit, without redirects.

The name is resolved once, and the connection uses the checked address. Only the status of the
answer is read, so that no channel reveals data behind the webhook. The connection is cut at a
deadline: with a timeout per read alone, a slow peer never ends.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from engine.errors import RequestError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL = 2000
_LONGEST_WAIT_S = 86_400
_PORTS = {"http": 80, "https": 443}
_REFUSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "100.64.0.0/10",  # between a provider and its customers; Alibaba's metadata too
            "192.88.99.0/24",  # relays to IPv6, of a practice that was given up
            "198.18.0.0/15",  # between devices that are measured
            "168.63.129.16/32",  # metadata of Azure
            "192.0.0.192/32",  # of Oracle
            "fd00:ec2::254/128",  # of Amazon
            "fd20:ce::254/128",  # of Google
            "fd00:c1::a9fe:a9fe/128",  # of Oracle
            "fd00:42::42/128",  # of Scaleway
        ),
    )
)
"""Where clouds tell a machine its credentials, and networks of providers, beside link-local addresses."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


class DeliveryError(Exception):
    """A failed try, in words without a secret; `retry_after_s` is the webhook's request."""

    def __init__(self, what: str, retry_after_s: int = 0) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Webhook:
    """The parts of a webhook's URL. A webhook from the settings may lead anywhere."""

    scheme: str
    host: str
    port: int
    path: str
    of_settings: bool = False

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def shown(self) -> str:
        """The displayable part: the rest after the host is often a secret."""
        return f"{self.scheme}://{self.authority}/…"


def webhook_at(url: str, *, of_settings: bool = False) -> Webhook:
    """Return the webhook of a URL; raise `RequestError` if the URL cannot be posted to."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        msg = "The host or the port of the target is not valid."
        raise RequestError(msg, "Check the URL.", field="target") from error
    if parts.scheme not in _PORTS or not host or not _is_plain(url, parts.netloc):
        msg = "The target is not an http:// or https:// URL."
        raise RequestError(msg, "Copy the URL of the webhook.", field="target")
    if "@" in parts.netloc:
        msg = "The target's URL contains a user name or a password."
        raise RequestError(msg, "Use a URL without them.", field="target")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Webhook(parts.scheme, host, port, path, of_settings)


def check_webhook(webhook: Webhook) -> None:
    """Resolve the webhook's name and check its addresses.

    Raises:
        RequestError: it has none, or one refused for alerts.
    """
    try:
        _addresses_of(webhook, monotonic() + settings.ALERT_TIMEOUT_SECONDS)
    except DeliveryError as error:
        remedy = "Check the URL, or ask an administrator to add the host to ALERT_WEBHOOK_HOSTS."
        msg = f"{error}."
        raise RequestError(msg, remedy, field="target") from error


def post(webhook: Webhook, body: bytes, headers: Mapping[str, str], seconds: float) -> None:
    """Send a body within `seconds`, whatever the webhook does.

    Raises:
        DeliveryError: it was not answered by a status from 200 to 299.
    """
    status, wait = _send_request(webhook, "POST", body, headers, seconds)
    if 300 <= status < 400:
        msg = f"answered {status}: redirects are not followed"
        raise DeliveryError(msg)
    if not 200 <= status < 300:
        msg = f"answered {status}"
        raise DeliveryError(msg, wait)


def status_of(webhook: Webhook, headers: Mapping[str, str], seconds: float) -> int:
    """Return the status of a HEAD, which changes nothing there.

    Raises:
        DeliveryError: there was no answer.
    """
    return _send_request(webhook, "HEAD", None, headers, seconds)[0]


def _send_request(
    webhook: Webhook, method: str, body: bytes | None, headers: Mapping[str, str], seconds: float
) -> tuple[int, int]:
    """Return the status, and the seconds until the next try, if given."""
    until = monotonic() + seconds
    try:
        with _open_connection(webhook, until) as line:
            connection = http.client.HTTPConnection(webhook.host, webhook.port)
            connection.sock = line
            connection.request(method, webhook.path, body, {"Host": webhook.authority, **headers})
            answer = connection.getresponse()
            if monotonic() >= until:  # a line that was cut ends the headers, to http.client
                raise TimeoutError
            return answer.status, _wait_of(answer.headers, timezone.now())
    except (OSError, http.client.HTTPException) as error:
        late = monotonic() >= until or isinstance(error, TimeoutError)
        what = f"no answer within {seconds:g} s" if late else _words_of(error)
        raise DeliveryError(what) from error


def _wait_of(headers: Message, now: datetime) -> int:
    """Return the seconds of `Retry-After`: a number, or a date by the sender's clock; 0: none."""
    asked = headers.get("Retry-After", "").strip()
    if asked.isascii() and asked.isdecimal():
        return min(int(asked[:9]), _LONGEST_WAIT_S)
    moment = _date_in(asked)
    if moment is None:
        return 0
    seconds = (moment - (_date_in(headers.get("Date", "")) or now)).total_seconds()
    return int(min(max(0.0, seconds), _LONGEST_WAIT_S))


def _date_in(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # no date, or before the first year in UTC
        return None


@contextmanager
def _open_connection(webhook: Webhook, until: float) -> Iterator[socket.socket]:
    """Open a connection to one of the webhook's addresses, cut at the deadline."""
    line = connect_to_first(_addresses_of(webhook, until), until)
    cutter = Cutter(line, until)
    try:
        if webhook.scheme == "https":
            line = _context().wrap_socket(
                line, server_hostname=webhook.host, do_handshake_on_connect=False
            )
            line.do_handshake()
        yield line
    finally:
        cutter.stop()
        line.close()


def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _addresses_of(webhook: Webhook, until: float) -> list[tuple[Address, int]]:
    """Return the addresses of a name, all of them allowed.

    Raises:
        DeliveryError: it has none, or one refused for alerts.
    """
    try:
        addresses = resolve_host(webhook.host, webhook.port, until)
    except (OSError, UnicodeError) as error:
        msg = f"{webhook.host} cannot be resolved"
        raise DeliveryError(msg) from error
    refused = [address for address in addresses if not _is_allowed(webhook, address)]
    if refused or not addresses:
        where = str(refused[0]) if refused else "no address"
        msg = f"{webhook.host} resolves to {where}, where alerts are not sent"
        raise DeliveryError(msg)
    return [(address, webhook.port) for address in dict.fromkeys(addresses)]


def _is_allowed(webhook: Webhook, address: Address) -> bool:
    """Addresses of this machine, of the link, of providers and of cloud metadata are for those named."""
    return (
        webhook.of_settings
        or not any(map(_is_dangerous, _list_effective_addresses(address)))
        or any(_names(entry, webhook.host, address) for entry in settings.ALERT_WEBHOOK_HOSTS)
    )


def _is_dangerous(address: Address) -> bool:
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or any(address in network for network in _REFUSED)
    )


def _list_effective_addresses(address: Address) -> tuple[Address, ...]:
    """Return the IPv4 addresses behind an IPv6 address, if there are any; else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64:
        return (low,)
    if address.teredo:
        return address.teredo
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return (address, low)
    return (address.ipv4_mapped or address.sixtofour or address,)


def _names(entry: str, host: str, address: Address) -> bool:
    """Whether an entry of the setting means this host: by name, or by a network it is in."""
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return entry.lower() == host.lower()


def _is_plain(url: str, authority: str) -> bool:
    """Whether it may appear in a request's first line; a host may have any letters."""
    rest = url.replace(authority, "", 1)
    return (
        len(url) <= MAX_URL and url.isprintable() and rest.isascii() and not {" ", "\\"} & set(url)
    )


def _words_of(error: Exception) -> str:
    """Describe a connection error; a system error by its own text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"no HTTP answer ({type(error).__name__})"


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
