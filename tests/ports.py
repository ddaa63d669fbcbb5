"""Ports that stay free for their purpose while other processes choose and use ports too."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOST = "127.0.0.1"
_GIVEN_TO_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CHOICE = 10_000


@contextmanager
def dead_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody can while the block runs."""
    with socket.socket() as held:
        held.bind((_HOST, 0))
        yield held.getsockname()[1]


def port_for_later() -> int:
    """A free port for a server that takes seconds to start.

    The system gives none of these to a connection, or to who asks for any port.
    """
    try:
        end = int(_GIVEN_TO_CONNECTIONS.read_text().split()[0])
    except OSError:  # another system than Linux
        end = 32_768
    while True:
        port = random.SystemRandom().randrange(max(1024, end - _CHOICE), end)
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:  # somebody has it
                continue
        return port
