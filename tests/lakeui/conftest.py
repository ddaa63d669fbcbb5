import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.cache import cache

from lakeui.celery import app
from tests.lakeui.page_client import PageClient
from tests.ports import dead_port


@pytest.fixture(autouse=True)
def _nothing_is_cached_yet():
    """Clear the counters of rate limits and the workers' cached answers."""
    cache.clear()


@pytest.fixture
def client():
    return PageClient()


@pytest.fixture
def dead():
    """Yield a port on which nothing listens."""
    with dead_port() as port:
        yield port


@pytest.fixture
def unreachable_broker(dead):
    """Point Celery at a port on which nothing listens."""
    with _point_broker_at(dead):
        yield


@pytest.fixture
def silent_broker():
    """Point Celery at a server that accepts connections and never answers."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        _point_broker_at(silent.getsockname()[1]),
    ):
        yield


@contextmanager
def _point_broker_at(port: int) -> Iterator[None]:
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
