"""The client address for rate limits, the audit log and the log: only trusted proxies may set it."""

import pytest
import structlog
from auditlog.models import LogEntry
from django.core.handlers.asgi import ASGIRequest
from django.test import Client, RequestFactory
from rest_framework.request import Request

from lakeui.api.throttles import AnonymousThrottle
from lakeui.monitoring.client_address import RequestLogMiddleware, client_address, client_network
from tests.lakeui.factories import make_user

PEER = "198.51.100.7"
FORWARDED = [
    # TRUSTED_PROXIES, X-Forwarded-For, peer, address
    (0, None, PEER, PEER),
    (0, "203.0.113.9", PEER, PEER),
    (0, "203.0.113.9", "127.0.0.1", "127.0.0.1"),
    (0, "203.0.113.9", "::1", "::1"),
    (1, None, PEER, PEER),
    (1, "", PEER, PEER),
    (1, "203.0.113.9", PEER, "203.0.113.9"),
    (1, "6.6.6.6, 203.0.113.9", PEER, "203.0.113.9"),
    (1, "203.0.113.9,", PEER, PEER),
    (2, "6.6.6.6, 203.0.113.9, 10.0.0.1", PEER, "203.0.113.9"),
    (2, "203.0.113.9 ,\t10.0.0.1", PEER, "203.0.113.9"),
    (
        2,
        "203.0.113.9",
        PEER,
        PEER,
    ),  # it did not come through both: what is left may be the client's
    (3, "6.6.6.6, 203.0.113.9", PEER, PEER),
    (1, "not-an-address", PEER, PEER),
    (1, "6.6.6.6, unknown", PEER, PEER),
    (1, "203.0.113.9.1", PEER, PEER),
    (1, "203.0.113.0/24", PEER, PEER),
    (1, "0x7f.1", PEER, PEER),
    (1, "2130706433", PEER, PEER),
    (1, "\xb2\xb3.1.1.1", PEER, PEER),
    (1, "<script>", PEER, PEER),
    (1, "1" * 5000, PEER, PEER),
    (1, "," * 5000, PEER, PEER),
    (1, "6.6.6.6," * 5000 + "203.0.113.9", PEER, "203.0.113.9"),
    (1, "203.0.113.9:4711", PEER, "203.0.113.9"),
    (1, "2001:DB8::0:1", PEER, "2001:db8::1"),
    (1, "[2001:db8::1]", PEER, "2001:db8::1"),
    (1, "[2001:db8::1]:443", PEER, "2001:db8::1"),
    (1, "[203.0.113.9", PEER, PEER),
    (1, "fe80::1%eth0", PEER, "fe80::1"),
    (1, "203.0.113.9%eth0", PEER, PEER),
    (1, "::ffff:203.0.113.9", PEER, "203.0.113.9"),
    (0, None, "::ffff:203.0.113.9", "203.0.113.9"),
    (0, None, "", None),
    (0, "203.0.113.9", "", None),  # a Unix socket
    (1, "203.0.113.9", "", "203.0.113.9"),
    (0, None, "not-an-address", None),
]


def request_from(peer, forwarded=None):
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=peer, headers=headers)


@pytest.mark.parametrize(("proxies", "header", "peer", "address"), FORWARDED)
def test_the_address_is_the_one_that_the_outermost_trusted_proxy_saw(
    settings, proxies, header, peer, address
):
    settings.TRUSTED_PROXIES = proxies
    assert client_address(request_from(peer, header)) == address


@pytest.mark.parametrize(
    ("proxies", "lines", "address"),
    [
        (1, ["6.6.6.6", "203.0.113.9"], "203.0.113.9"),
        (2, ["6.6.6.6, 203.0.113.9", "10.0.0.1"], "203.0.113.9"),
        (2, ["203.0.113.9", "10.0.0.1"], "203.0.113.9"),
        (2, ["203.0.113.9", ""], "203.0.113.9"),
        (1, ["203.0.113.9", ""], PEER),
        (0, ["6.6.6.6", "203.0.113.9"], PEER),
    ],
)
def test_several_header_lines_count_as_one(settings, proxies, lines, address):
    settings.TRUSTED_PROXIES = proxies
    headers = [(b"x-forwarded-for", line.encode()) for line in lines]
    spoofed = [(b"x_forwarded_for", b"6.6.6.6"), (b"x-real-ip", b"6.6.6.6")]
    scope = {"type": "http", "method": "GET", "path": "/", "client": (PEER, 5)}
    request = ASGIRequest({**scope, "headers": [*headers, *spoofed]}, None)
    assert client_address(request) == address


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("", ""),
    ],
)
def test_tries_are_counted_by_address_or_by_the_64_bits_that_one_customer_has(peer, network):
    assert client_network(request_from(peer)) == network


@pytest.fixture
def try_sign_in(db):
    """Return a function that signs in as `ops` with a wrong password, from a header and a peer."""
    make_user("ops")
    body = {"username": "ops", "password": "wrong"}

    def sign_in(forwarded, peer="127.0.0.1"):
        headers = {"X-Forwarded-For": forwarded}
        return Client(REMOTE_ADDR=peer).post("/login/", body, headers=headers).status_code

    return sign_in


def test_a_client_cannot_choose_how_its_tries_are_counted(settings, try_sign_in):
    statuses = [try_sign_in(f"203.0.113.{number}") for number in range(6)]
    assert statuses == [400] * 5 + [429]


def test_behind_a_proxy_tries_are_counted_by_the_client(settings, try_sign_in):
    settings.TRUSTED_PROXIES = 1
    assert [try_sign_in(f"6.6.6.{n}, 203.0.113.9") for n in range(6)] == [400] * 5 + [429]
    assert try_sign_in("203.0.113.10") == 400
    assert {entry.remote_addr for entry in LogEntry.objects.filter(action=3)} == {
        "203.0.113.9",
        "203.0.113.10",
    }


def test_rates_and_log_name_the_same_address(settings):
    settings.TRUSTED_PROXIES = 1
    request = Request(request_from("127.0.0.1", "6.6.6.6, 203.0.113.9"))
    RequestLogMiddleware.bind_ip(request._request)
    assert structlog.contextvars.get_contextvars()["ip"] == "203.0.113.9"
    structlog.contextvars.clear_contextvars()
    assert AnonymousThrottle().get_ident(request) == "203.0.113.9"
