"""A proxy of an S3 server that can stop in the middle of a request, and resume."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class MortalProxy:
    """A proxy that forwards requests until `dies_at` of them were for data files, and then drops each one."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target).netloc
        self._lock = threading.Lock()
        self._seen = 0
        self._dies_at: int | None = None
        self.dropped = 0

    def die_at(self, reads: int) -> None:
        """Drop the n-th read of a data file from now, and all requests after it."""
        with self._lock:
            self._seen, self._dies_at = 0, reads

    def live(self) -> None:
        """Forward everything again."""
        with self._lock:
            self._dies_at = None

    def drops(self, method: str, path: str) -> bool:
        """Return True if this request gets no answer."""
        with self._lock:
            if self._dies_at is None:
                return False
            self._seen += method == "GET" and ".parquet" in path and "_delta_log" not in path
            self.dropped += self._seen >= self._dies_at
            return self._seen >= self._dies_at

    def pass_on(self, handler: BaseHTTPRequestHandler) -> None:
        """Forward the request and the answer; send half of the body if this is the last one."""
        drops = self.drops(handler.command, handler.path)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if drops and handler.command != "GET":
            handler.close_connection = True
            return
        inner = http.client.HTTPConnection(self._target, timeout=30)
        try:
            inner.request(handler.command, handler.path, body, dict(handler.headers))
            answer = inner.getresponse()
            content = answer.read()
        finally:
            inner.close()
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                handler.send_header(name, value)
        length = answer.getheader("Content-Length") if handler.command == "HEAD" else len(content)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(content[: len(content) // 2] if drops else content)
        handler.close_connection = drops


@contextmanager
def mortal_proxy(target: str) -> Iterator[tuple[str, MortalProxy]]:
    """Yield the proxy's address, and the proxy."""
    proxy = MortalProxy(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            proxy.pass_on(self)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _any  # noqa: N815 - the server's names

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", proxy
        finally:
            server.shutdown()
