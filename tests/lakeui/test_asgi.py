"""The web server's entry loads the modules of pages and REST before the first request."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient

from engine.clock import SystemClock
from lakeui import request_turns
from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role
from lakeui.event_streams import StreamSlot, wait_for
from lakeui.local_stack.preflight import free_port, listens
from lakeui.request_turns import ACCOUNT, RequestsInTurn, RequestTurns
from tests.services import ROOT, wait_until

pytestmark = pytest.mark.timeout(180)

PROGRAM = """
import sys
import lakeui.asgi
print(all(name in sys.modules for name in ("lakeui.pages.urls", "lakeui.api.urls", "lakeui.api.jobs")))
print(sys.getswitchinterval())
"""


def test_addresses_are_loaded_before_the_first_request_and_threads_take_turns_quickly():
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["True", "0.0005"]


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
    """An application that counts its requests, which run until they are released."""

    def __init__(self):
        self.at_work, self.let_go, self.begun = Counter(), asyncio.Event(), 0
        self.accounts = {}

    async def __call__(self, scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        who = dict(scope["headers"])[b"cookie"].removeprefix(b"sessionid=").decode()
        self.at_work[who] += 1
        await self.let_go.wait()
        self.at_work[who] -= 1
        scope[ACCOUNT] = self.accounts.get(who)
        await send({"type": "http.response.start"})
        self.begun += 1
        await asyncio.Event().wait()  # a stream, whose reader stays


def app_of(app, **limits):
    """The application, whose refusals are told by a message of status 429."""

    async def refuse(_scope, send):
        await send({"type": "http.response.start", "status": 429})

    return RequestsInTurn(app, lambda scope: scope["client"][0], refuse, **limits)


def ask(app, cookie, *parts, address="", answers=None):
    """Send a request with a body in parts; the last part ends it."""
    bodies = list(parts) or [{"type": "http.request"}]

    async def receive():
        await asyncio.sleep(0)
        return bodies.pop(0) if bodies else await asyncio.Event().wait()

    async def send(message):
        await asyncio.sleep(0)
        if answers is not None:
            answers.append(message.get("status", 200))

    headers = [(b"cookie", b"sessionid=" + cookie.encode())]
    scope = {"type": "http", "headers": headers, "client": (address or cookie, 1)}
    return asyncio.create_task(app(scope, receive, send))


async def pass_moments():
    for _ in range(50):
        await asyncio.sleep(0)


async def wait_for_moment(holds):
    until = SystemClock().monotonic_s() + 60
    while not holds():
        assert SystemClock().monotonic_s() < until
        await asyncio.sleep(0.01)


def tell(story):
    """Run a story, and end its requests."""

    async def run():
        tasks = []
        await story(tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_client_with_many_requests_leaves_turns_to_others_and_a_slow_body_takes_none():
    async def story(tasks):
        work = Work()
        app = app_of(work, most=4, most_at_once=4, most_of_one=2)
        slow = {"type": "http.request", "more_body": True}
        tasks += [ask(app, "slow", slow) for _ in range(9)]
        tasks += [ask(app, "greedy") for _ in range(9)]
        tasks += [ask(app, name) for name in ("b", "c", "d")]
        await pass_moments()
        assert sorted(work.at_work.items()) == [("b", 1), ("c", 1), ("greedy", 2)]
        work.let_go.set()
        await wait_for_moment(lambda: work.begun == 12)
        work.let_go.clear()
        tasks += [ask(app, str(number)) for number in range(9)]
        await wait_for_moment(lambda: work.at_work.total() == 4)
        await pass_moments()
        assert work.at_work.total() == 4

    tell(story)


def test_a_newcomer_has_the_next_turn_however_many_requests_wait():
    async def story(_):
        turns = RequestTurns(most=1, most_at_once=1, most_of_one=1)
        served = []

        async def work(who, seconds):
            await turns.take(who)
            served.append(who)
            await asyncio.sleep(0)
            turns.end(who, seconds, is_long=False)

        asks = [work("greedy", 1.0) for _ in range(9)] + [work("modest", 0.1) for _ in range(9)]
        await asyncio.gather(*asks, work("newcomer", 0.1))
        assert served[1] == "modest"
        assert served.index("newcomer") < 4
        assert served[:12].count("modest") == 9, "turns are given by time, not by number"

    tell(story)


def test_a_cancelled_request_keeps_no_turn_and_no_place_in_the_queue():
    async def story(_):
        turns = RequestTurns(most=1, most_at_once=1, most_of_one=1)
        await turns.take("a")
        waiting = [asyncio.create_task(turns.take(who)) for who in ("a", "b", "c")]
        await pass_moments()
        waiting[0].cancel()
        turns.end("a", 1.0, is_long=False)  # "b" has the turn now, and is cancelled before it runs
        waiting[1].cancel()
        await asyncio.wait_for(waiting[2], 60)
        assert [turns.count_queued(who) for who in "abc"] == [0, 0, 0]
        turns.end("c", 1.0, is_long=False)
        await asyncio.wait_for(turns.take("b"), 60)

    tell(story)


def test_a_long_request_leaves_room_for_others(monkeypatch):
    monkeypatch.setattr(request_turns, "LONG_S", 0.01)

    async def story(tasks):
        work = Work()
        app = app_of(work, most=3, most_at_once=1)
        tasks += [ask(app, str(number)) for number in range(9)]
        await wait_for_moment(lambda: work.at_work.total() == 3)
        work.let_go.set()
        await wait_for_moment(lambda: work.begun == 9)

    tell(story)


def test_all_sessions_of_an_account_count_as_one_client_and_so_do_invented_ones():
    async def story(tasks):
        work = Work()
        app = app_of(work, most_at_once=9, most_of_one=2)
        work.accounts = {f"own{number}": 7 for number in range(9)}
        names = [f"own{number}" for number in range(9)] + [f"new{number}" for number in range(9)]
        tasks += [ask(app, name, address="one") for name in names]
        await wait_for_moment(lambda: work.at_work.total() == 2)
        await pass_moments()
        assert work.at_work.total() == 2, "they count by their address"
        work.let_go.set()
        await wait_for_moment(lambda: work.begun == 18)
        work.let_go.clear()
        tasks += [ask(app, f"own{number}", address=f"elsewhere{number}") for number in range(9)]
        await wait_for_moment(lambda: work.at_work.total() == 2)
        await pass_moments()
        assert work.at_work.total() == 2, "they count by their account"

    tell(story)


@pytest.mark.django_db(transaction=True)
def test_pages_and_rest_name_the_account_behind_a_session_and_a_token():
    user = User.objects.create_user("ada")
    _, token = ApiToken.objects.create(user=user, name="ci", role=Role.VIEWER)
    session = AsyncClient()
    session.force_login(user)

    async def ask_each():
        with_token = {"Authorization": f"Bearer {token}"}
        return [
            await session.get("/jobs/"),
            await session.get("/api/v1/tables/"),
            await AsyncClient().get("/api/v1/tables/", headers=with_token),
            await AsyncClient().get("/login/"),
            await AsyncClient().get(
                "/api/v1/tables/", headers={"Authorization": "Bearer invented"}
            ),
        ]

    scopes = [answer.asgi_request.scope for answer in asyncio.run(ask_each())]
    assert [scope.get(ACCOUNT) for scope in scopes] == [*[user.pk] * 3, None, None]


def test_a_client_whose_requests_wait_in_great_number_is_refused_and_no_other(monkeypatch):
    monkeypatch.setattr(request_turns, "MOST_QUEUED_OF_ONE", 3)

    async def story(tasks):
        work, answers, others = Work(), [], []
        app = app_of(work, most_of_one=1)
        tasks += [ask(app, "greedy", answers=answers) for _ in range(4)]
        await pass_moments()
        tasks += [ask(app, "greedy", answers=answers) for _ in range(2)]
        tasks.append(ask(app, "other", answers=others))
        await pass_moments()
        assert answers == [429, 429]
        work.let_go.set()
        await wait_for_moment(lambda: work.begun == 5)
        assert (answers, others) == ([429, 429, *[200] * 4], [200])

    tell(story)


def test_a_request_that_waits_for_news_gives_its_turn_to_others():
    async def story(tasks):
        begun = []

        async def wait(scope, receive, send):
            await receive()
            begun.append(scope)
            slot = StreamSlot("a")
            try:
                await wait_for(lambda: False, 60, slot)
            finally:
                slot.leave()

        app = app_of(wait, most=1)
        tasks += [ask(app, "a") for _ in range(3)]
        await wait_for_moment(lambda: len(begun) == 3)

    tell(story)


def test_a_person_who_waits_often_is_checked_less_often_each_time():
    slots = [StreamSlot("many") for _ in range(50)]
    other = StreamSlot("few")
    assert (slots[0].slowness, other.slowness) == (5.0, 1.0)
    for slot in [*slots, other]:
        slot.leave()
