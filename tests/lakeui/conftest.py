import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakeui.celery import app
from tests.lakeui.page_client import PageClient


@pytest.fixture
def client():
    return PageClient()


@pytest.fixture
def unreachable_broker():
    """Celery pointed at a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with _pointed_to(port):
        yield


@pytest.fixture
def silent_broker():
    """Celery pointed at somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent, _pointed_to(silent.getsockname()[1]):
        yield


@contextmanager
def _pointed_to(port: int) -> Iterator[None]:
    before = app.conf.broker_url
    _point_to(f"redis://127.0.0.1:{port}/0")
    try:
        yield
    finally:
        _point_to(before)


def _point_to(url: str) -> None:
    app._pool = None
    app.amqp._producer_pool = None
    app.conf.broker_url = app.conf.broker_write_url = app.conf.broker_read_url = url
