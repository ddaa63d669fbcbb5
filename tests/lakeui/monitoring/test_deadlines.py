"""Deadlines of requests to external servers, including name resolution and the first address."""

import ipaddress
import socket
import threading
from time import monotonic

import pytest

from lakeui.monitoring.alerting.webhooks import connect_to_first, resolve_host

LOOPBACK = ipaddress.ip_address("127.0.0.1")


def test_a_name_server_that_hangs_is_waited_for_until_the_deadline():
    ended = threading.Event()

    def hangs(*_, **__):
        ended.wait(30)
        return []

    with pytest.raises(TimeoutError):
        resolve_host("hooks.example.org", 443, monotonic() + 0.2, hangs)
    ended.set()


def test_an_unknown_name_is_reported_as_the_system_does():
    def refuses(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(socket.gaierror):
        resolve_host("hooks.example.org", 443, monotonic() + 30, refuses)
    assert resolve_host("127.0.0.1", 443, monotonic() + 30) == [LOOPBACK]


def test_an_address_that_accepts_no_connection_leaves_time_for_the_next():
    with socket.socket() as full, socket.create_server(("127.0.0.1", 0)) as open_server:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = []
        for _ in range(8):  # a full backlog answers nothing, as a firewall that drops
            line = socket.socket()
            line.setblocking(False)
            line.connect_ex(("127.0.0.1", port))
            waiting.append(line)
        places = [(LOOPBACK, port), (LOOPBACK, open_server.getsockname()[1])]
        with connect_to_first(places, monotonic() + 4) as line:
            assert line.getpeername()[1] == open_server.getsockname()[1]
        for one in waiting:
            one.close()
