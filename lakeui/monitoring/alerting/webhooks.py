"""One POST to a webhook: to an address that is allowed, within a time, following nowhere.

The name is resolved once; the address that was checked is the one that is connected to. What the
webhook answers besides its status is not read, so that no channel shows what lies behind it.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from urllib.parse import urlsplit

from django.conf import settings

from engine.errors import RequestError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
MAX_URL = 2000
_PORTS = {"http": 80, "https": 443}
_METADATA = tuple(
    map(ipaddress.ip_network, ("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128"))
)
"""Where clouds tell a machine its credentials, beside link-local addresses."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class DeliveryError(Exception):
    """A try that failed, in words that hold no secret; `retry_after_s` is what the webhook asked."""

    def __init__(self, what: str, retry_after_s: int = 0) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Webhook:
    """The parts of a webhook's URL. One that the settings name may lead anywhere."""

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
        """What may be shown: what follows the host is often a secret."""
        return f"{self.scheme}://{self.authority}/…"


def webhook_at(url: str, *, of_settings: bool = False) -> Webhook:
    """The webhook of a URL.

    Raises:
        RequestError: the URL is none to post to.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        msg = "The host or the port of the target cannot be read."
        raise RequestError(msg, "Check the URL.", field="target") from error
    if parts.scheme not in _PORTS or not host or not _is_plain(url, parts.netloc):
        msg = "The target is no http:// or https:// URL."
        raise RequestError(msg, "Copy the URL of the webhook.", field="target")
    if "@" in parts.netloc:
        msg = "The target's URL holds a user name or a password."
        raise RequestError(msg, "Give a URL without them.", field="target")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Webhook(parts.scheme, host, port, path, of_settings)


def check_webhook(webhook: Webhook) -> None:
    """Resolve the webhook's name and check where it leads.

    Raises:
        RequestError: nowhere, or to an address that alerts are not sent to.
    """
    try:
        _addresses_of(webhook)
    except DeliveryError as error:
        remedy = "Check the URL, or have an administrator add the host to ALERT_WEBHOOK_HOSTS."
        raise RequestError(str(error), remedy, field="target") from error


def post(webhook: Webhook, body: bytes, headers: Mapping[str, str], seconds: float) -> None:
    """Send a body. It ends after so many seconds, whatever the webhook does.

    Raises:
        DeliveryError: it was not answered by a status from 200 to 299.
    """
    until = monotonic() + seconds
    try:
        status, wait = _posted(webhook, body, headers, until)
    except (OSError, http.client.HTTPException) as error:
        late = monotonic() >= until or isinstance(error, TimeoutError)
        what = f"no answer within {seconds:g} s" if late else _words_of(error)
        raise DeliveryError(what) from error
    if 300 <= status < 400:
        msg = f"answered {status}: redirects are not followed"
        raise DeliveryError(msg)
    if not 200 <= status < 300:
        msg = f"answered {status}"
        raise DeliveryError(msg, wait)


def _posted(
    webhook: Webhook, body: bytes, headers: Mapping[str, str], until: float
) -> tuple[int, int]:
    """The status, and the seconds after which to try again where the webhook says so."""
    with _connected(webhook, until) as line:
        connection = http.client.HTTPConnection(webhook.host, webhook.port)
        connection.sock = line
        connection.request("POST", webhook.path, body, {"Host": webhook.authority, **headers})
        answer = connection.getresponse()
        if monotonic() >= until:  # to http.client the end of a line that was cut ends the headers
            raise TimeoutError
        wait = answer.headers.get("Retry-After", "")
        return answer.status, int(wait) if wait.isdecimal() and len(wait) < 6 else 0


@contextmanager
def _connected(webhook: Webhook, until: float) -> Iterator[socket.socket]:
    """A line to one of the webhook's addresses, cut at the deadline: per read, a drip never ends."""
    line = _reached(_addresses_of(webhook), until)
    if webhook.scheme == "https":
        line = _context().wrap_socket(
            line, server_hostname=webhook.host, do_handshake_on_connect=False
        )
    cutter = threading.Timer(max(0.0, until - monotonic()), _cut, [line])
    cutter.daemon = True
    cutter.start()
    try:
        if isinstance(line, ssl.SSLSocket):
            line.do_handshake()
        yield line
    finally:
        cutter.cancel()
        line.close()


def _reached(addresses: list[tuple[Address, int]], until: float) -> socket.socket:
    failure: OSError | None = None
    for address, port in addresses:
        left = until - monotonic()
        if left <= 0:
            break
        try:
            return socket.create_connection((str(address), port), timeout=left)
        except OSError as error:
            failure = error
    raise failure or TimeoutError


def _cut(line: socket.socket) -> None:
    try:
        socket.socket.shutdown(line, socket.SHUT_RDWR)
    except OSError:  # closed already
        return


def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _addresses_of(webhook: Webhook) -> list[tuple[Address, int]]:
    """The addresses of a name, each of which is allowed.

    Raises:
        DeliveryError: it has none, or one that alerts are not sent to.
    """
    try:
        places = socket.getaddrinfo(webhook.host, webhook.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        msg = f"{webhook.host} cannot be resolved"
        raise DeliveryError(msg) from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in places]
    refused = [address for address in addresses if not _is_allowed(webhook, address)]
    if refused or not addresses:
        where = str(refused[0]) if refused else "no address"
        msg = f"{webhook.host} leads to {where}, where alerts are not sent"
        raise DeliveryError(msg)
    return [(address, webhook.port) for address in dict.fromkeys(addresses)]


def _is_allowed(webhook: Webhook, address: Address) -> bool:
    """Addresses of this machine, of the link and of cloud metadata are for those who are named."""
    return (
        webhook.of_settings
        or not _is_dangerous(address)
        or any(_names(entry, webhook.host, address) for entry in settings.ALERT_WEBHOOK_HOSTS)
    )


def _is_dangerous(address: Address) -> bool:
    inner = _inside(address)
    return (
        inner.is_loopback
        or inner.is_link_local
        or inner.is_multicast
        or inner.is_unspecified
        or inner.is_reserved
        or any(inner in network for network in _METADATA)
    )


def _inside(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _names(entry: str, host: str, address: Address) -> bool:
    """Whether an entry of the setting means this host: by name, or by a network it is in."""
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return entry.lower() == host.lower()


def _is_plain(url: str, authority: str) -> bool:
    """Whether it can stand in a request's first line; a host may be in any letters."""
    rest = url.replace(authority, "", 1)
    return (
        len(url) <= MAX_URL and url.isprintable() and rest.isascii() and not {" ", "\\"} & set(url)
    )


def _words_of(error: Exception) -> str:
    """What went wrong on the line; the error's own text where it is one of the system's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"no HTTP answer ({type(error).__name__})"
