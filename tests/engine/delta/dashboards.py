"""Dashboards for tests: real local servers that keep the requests they receive."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine.reports.dashboard import ADDRESS, Dashboard
from engine.reports.outbox import OutboxLimits, ReportOutbox
from engine.reports.spool import Spool

TAKEN = {"accepted": 1, "duplicates": 0, "refused": []}
WRITER = {"application": "nightly", "host": "etl-3", "user": "ada", "engine": "lakeui/0.2"}


@dataclass
class Desk:
    """The requests that a dashboard received, its answers, and a switch that lets it answer."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    asked: threading.Event = field(default_factory=threading.Event)
    may_answer: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for body in self.bodies for event in body["events"]]


@contextmanager
def desk(*, answers_at_once: bool = True) -> Iterator[Desk]:
    """Yield a running dashboard. Its next answers may be set; otherwise it accepts everything."""
    kept = Desk()
    if answers_at_once:
        kept.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.loads(raw or b"{}")
            kept.asked.set()
            kept.may_answer.wait(30)
            status, answer = kept.answers.pop(0) if kept.answers else (200, TAKEN)
            kept.tokens.append(self.headers["Authorization"])
            if self.path == ADDRESS and status == 200:
                kept.bodies.append(body)
            self.send_response(status)
            for name, value in kept.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            """Suppress output on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kept
    finally:
        kept.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()


def outbox_to(url, spool, *, token=None, spool_bytes=1_000_000, **limits):
    """Return an outbox that gathers events until it is flushed."""
    bounds = OutboxLimits(**({"queue_events": 1000, "gather_s": 600.0} | limits))
    dashboard = Dashboard(url, token or "lake_secret", timeout_s=30.0)
    return ReportOutbox(dashboard.post, Spool(spool, spool_bytes), lambda: WRITER, bounds)


def files_of(spool):
    """Return the events of each batch on disk, the oldest batch first."""
    paths = sorted(spool.glob("*.json")) if spool.exists() else []
    return [json.loads(path.read_text())["events"] for path in paths]


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"kind": "begun", "table": "t", "txn_id": str(number), "sequence": 0} | more
