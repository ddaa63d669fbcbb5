import socket

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
    before = app.conf.broker_url
    _point_to(f"redis://127.0.0.1:{port}/0")
    yield
    _point_to(before)


def _point_to(url: str) -> None:
    app._pool = None
    app.amqp._producer_pool = None
    app.conf.broker_url = app.conf.broker_write_url = app.conf.broker_read_url = url
