"""The web server's entry loads the modules of pages and REST before the first request."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest

from engine.clock import SystemClock
from lakeui.event_streams import RequestsInTurn, wait_for
from lakeui.local_stack.preflight import free_port, listens
from tests.services import ROOT, wait_until

pytestmark = pytest.mark.timeout(180)

PROGRAM = """
import sys
import lakeui.asgi
print(all(name in sys.modules for name in ("lakeui.pages.urls", "lakeui.api.urls", "lakeui.api.jobs")))
"""


def test_addresses_are_loaded_before_the_first_request():
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "True"


def test_a_killed_parent_leaves_no_process_on_the_port(tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "lakeui.asgi:application", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        parent = subprocess.Popen(  # noqa: S603 - this interpreter
            [*command, "--workers", "2", "--timeout-graceful-shutdown", "2"],
            cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        started = (tmp_path / "log").read_text
        wait_until(lambda: listens(port) and "startup complete" in started(), "a start", 120)
        parent.kill()
        parent.wait()
        wait_until(lambda: not listens(port), "the end of the children", 60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)


class Work:
    """An application whose requests work until they are let go; it counts them."""

    def __init__(self):
        self.at_work, self.let_go, self.begun = Counter(), asyncio.Event(), 0

    async def __call__(self, scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        who = scope["headers"][0][1]
        self.at_work[who] += 1
        await self.let_go.wait()
        self.at_work[who] -= 1
        await send({"type": "http.response.start"})
        self.begun += 1
        await asyncio.Event().wait()  # a stream, whose reader stays


def ask(app, cookie, *parts):
    """Send a request with a body in parts; the last part ends it."""
    bodies = list(parts) or [{"type": "http.request"}]

    async def receive():
        await asyncio.sleep(0)
        return bodies.pop(0) if bodies else await asyncio.Event().wait()

    async def send(_message):
        await asyncio.sleep(0)

    scope = {"type": "http", "headers": [(b"cookie", b"sessionid=" + cookie)]}
    return asyncio.create_task(app(scope, receive, send))


async def pass_moments():
    for _ in range(50):
        await asyncio.sleep(0)


async def wait_for_moment(holds):
    until = SystemClock().monotonic_s() + 60
    while not holds():
        assert SystemClock().monotonic_s() < until
        await asyncio.sleep(0.01)


def test_a_client_with_many_requests_leaves_turns_to_others_and_a_slow_body_takes_none():
    async def story():
        work = Work()
        app = RequestsInTurn(work, most=4, most_of_one=2)
        slow = {"type": "http.request", "more_body": True}
        tasks = [ask(app, b"slow", slow) for _ in range(9)]
        tasks += [ask(app, b"greedy") for _ in range(9)]
        tasks += [ask(app, name) for name in (b"b", b"c", b"d")]
        await pass_moments()
        assert sorted(work.at_work.items()) == [
            (b"sessionid=b", 1), (b"sessionid=c", 1), (b"sessionid=greedy", 2),
        ]  # fmt: skip
        work.let_go.set()
        await wait_for_moment(lambda: work.begun == 12)
        work.let_go.clear()
        tasks += [ask(app, str(number).encode()) for number in range(9)]
        await wait_for_moment(lambda: work.at_work.total() == 4)
        await pass_moments()
        assert work.at_work.total() == 4
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())


def test_a_request_that_waits_for_news_gives_its_turn_to_others():
    async def story():
        begun = []

        async def wait(scope, receive, send):
            await receive()
            begun.append(scope)
            await wait_for(lambda: False, 60)

        app = RequestsInTurn(wait, most=1)
        tasks = [ask(app, b"a") for _ in range(3)]
        await wait_for_moment(lambda: len(begun) == 3)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())
