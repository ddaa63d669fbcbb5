import socket

import pytest

from tests.ports import dead_port, port_for_later


def test_a_port_for_later_is_never_one_that_the_system_gives_to_connections():
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = server.getsockname()[1]
    ports = {port_for_later() for _ in range(20)}
    assert len(ports) > 1
    assert all(1024 <= port < 32_768 < given for port in ports)


def test_nothing_answers_at_a_dead_port_and_no_process_can_bind_it():
    with dead_port() as port, socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", port)) != 0
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))
