"""B11: the dashboard's pages over many connections at once, from a web server in processes of its own.

Every connection asks for one page after the other, chosen by chance, as one person: first with a pause
after each answer, then without any, which is as much as the server can do.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from statistics import quantiles

from engine.clock import SystemClock
from lakeui.local_stack.preflight import HOST, free_port, listens

_CLOCK = SystemClock()
Page = tuple[str, str]
"""A page's name, and one of its addresses."""
_Answers = dict[str, list[float]]
"""Milliseconds of each answer, by the page's name."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many connections for so many seconds, each with a pause after every answer."""

    connections: int
    seconds: float
    pause_seconds: float


def measure_pages(pages: Sequence[Page], cookie: str, load: Load, target_ms: float) -> str:
    """Return a table of all pages, with a pause and without; misses of the target are bold."""
    with _serve() as port:
        for _, address in pages:  # the disk and the first compilation are not measured
            _get(HTTPConnection(HOST, port, timeout=60), address, cookie)
        paused = _answers(pages, cookie, port, load)
        driven = _answers(pages, cookie, port, Load(load.connections, load.seconds, 0))
    rates = [sum(map(len, answers.values())) / load.seconds for answers in (paused, driven)]
    head = (
        f"{load.connections} connections for {load.seconds:.0f} s, {os.cpu_count()} processes of the web"
        f" server on the same machine: {rates[0]:.0f} pages a second with a pause of"
        f" {load.pause_seconds:g} s after each answer, and {rates[1]:.0f} without.\n\n"
        "| page | with pauses: median | 95th percentile | without: median | 95th percentile |\n"
        "|---|---:|---:|---:|---:|\n"
    )
    rows = [
        f"| {name} | {_cells(paused[name], target_ms)} | {_cells(driven[name], target_ms)} |"
        for name in dict.fromkeys(name for name, _ in pages)
    ]
    return head + "\n".join(rows) + "\n"


def _cells(times: Sequence[float], target_ms: float) -> str:
    if len(times) < 2:
        return " | "
    cuts = quantiles(times, n=20, method="inclusive")
    high = f"{cuts[18]:.0f} ms"
    return f"{cuts[9]:.0f} ms | {f'**{high}**' if cuts[18] > target_ms else high}"


def _answers(pages: Sequence[Page], cookie: str, port: int, load: Load) -> _Answers:
    """Of all connections together."""
    until = time.monotonic() + load.seconds

    def ask(number: int) -> Iterator[tuple[str, float]]:
        chance = random.Random(number)  # noqa: S311 - the same order every time
        connection = HTTPConnection(HOST, port, timeout=60)
        _CLOCK.pause(load.pause_seconds * number / load.connections)
        while time.monotonic() < until:
            name, address = chance.choice(pages)
            yield name, _get(connection, address, cookie)
            _CLOCK.pause(load.pause_seconds)
        connection.close()

    answers: _Answers = {name: [] for name, _ in pages}
    with ThreadPoolExecutor(load.connections) as pool:
        for asked in pool.map(lambda number: list(ask(number)), range(load.connections)):
            for name, spent_ms in asked:
                answers[name].append(spent_ms)
    return answers


def _get(connection: HTTPConnection, address: str, cookie: str) -> float:
    """Milliseconds until the whole answer is there."""
    began = time.perf_counter()
    connection.request("GET", address.replace("|", "%7C"), headers={"Cookie": cookie})
    answer = connection.getresponse()
    answer.read()
    if answer.status not in {HTTPStatus.OK, HTTPStatus.FOUND}:
        msg = f"{address} answered {answer.status}"
        raise RuntimeError(msg)
    return 1000 * (time.perf_counter() - began)


@contextmanager
def _serve() -> Iterator[int]:
    """Serve this process's database; yield the port."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "lakeui.asgi:application", "--host", HOST]
    workers = ["--port", str(port), "--workers", str(os.cpu_count()), "--lifespan", "off"]
    process = subprocess.Popen([*command, *workers, "--log-level", "error", "--no-access-log"])  # noqa: S603 - ourselves
    try:
        until = time.monotonic() + 60
        while not listens(port):
            if time.monotonic() > until or process.poll() is not None:
                msg = "the web server did not start"
                raise RuntimeError(msg)
            _CLOCK.pause(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(30)
