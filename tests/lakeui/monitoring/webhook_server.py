"""A real webhook: a server on 127.0.0.1 that keeps its requests."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Webhook:
    """A webhook that answers with the given statuses in turn, and repeats the last one."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [200])
    headers: dict[str, str] = field(default_factory=dict)
    tells_date: bool = True
    bodies: list[bytes] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)

    def answer(self) -> int:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def run_webhook() -> Iterator[Webhook]:
    webhook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            webhook.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            webhook.sent.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response_only(webhook.answer())
            if webhook.tells_date and "Date" not in webhook.headers:
                self.send_header("Date", self.date_time_string())
            for name, value in webhook.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    webhook.url = f"http://127.0.0.1:{server.server_port}/hook/a-secret-path"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield webhook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def run_hanging_webhook(drip: bytes = b"") -> Iterator[str]:
    """Run a server that accepts each line and never completes an answer: silent, or repeating one piece."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not ended.is_set():
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=_drip, args=[line, drip, ended], daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def _drip(line: socket.socket, drip: bytes, ended: threading.Event) -> None:
    with line:
        while not ended.wait(0.05):
            try:
                line.sendall(drip)
            except OSError:
                return
