"""`lakeui.client` and answers of foreign servers: proxies, and other versions."""

import asyncio
from itertools import islice

import httpx
import pytest

from lakeui.client import ApiError, AsyncClient, Client, ClientError, NotReachedError
from lakeui.client.flows import request_job

JOB = {
    "id": "x", "table_id": 1, "table": "a", "kind": "delete", "statement": "", "state": "running",
    "dry_run": False, "attempts": 1, "created_at": "2026-01-01T00:00:00Z", "finished_at": None,
    "committed_version": None, "error_code": None, "error_message": None, "metrics": None,
    "plan": None, "conflicts": [],
}  # fmt: skip
READS = {
    "table": lambda client: client.table("a.b"),
    "job": lambda client: client.job("x"),
    "conflicts": lambda client: list(islice(client.conflicts(), 1000)),
}
ANSWERS = {
    "a page": httpx.Response(200, text="<html>Sign in</html>"),
    "nothing": httpx.Response(204),
    "other letters": httpx.Response(200, content=b"\xff\xfe{"),
    "no field": httpx.Response(200, json={}),
    "fields of other types": httpx.Response(200, json={**JOB, "created_at": "soon", "items": 1}),
    "depth": httpx.Response(200, text="[" * 200_000),
    "the same page again": httpx.Response(200, json={"items": [], "next_page_token": "x"}),
    "depth of a fault": httpx.Response(400, text="[" * 200_000),
}


class _Clock:
    def __init__(self):
        self.pauses = []

    def pause(self, seconds):
        self.pauses.append(seconds)


def client_of(answer, clock=None):
    transport = httpx.MockTransport(answer)
    return Client("http://lake", "token", transport=transport, clock=clock or _Clock())


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_from_outside_the_interface_is_an_error_of_the_client(read, answer):
    with client_of(lambda _: answer) as client, pytest.raises(ApiError) as raised:
        read(client)
    assert raised.value.code in ("UNEXPECTED_ANSWER", "HTTP_400")


def test_an_answer_that_cannot_be_unpacked_counts_as_no_answer():
    def damage_answer(_):
        return httpx.Response(200, content=b"no gzip", headers={"Content-Encoding": "gzip"})

    with client_of(damage_answer) as client, pytest.raises(NotReachedError):
        client.job("x")


def test_a_server_that_ignores_wait_is_not_asked_without_a_pause():
    clock, answers = _Clock(), [{"state": "succeeded"}, *[{}] * 3]
    with client_of(lambda _: httpx.Response(200, json=JOB | answers.pop()), clock) as client:
        job = client.job("x")
        assert job.wait().state == "succeeded"
    assert clock.pauses == [1.0, 1.0]


@pytest.mark.parametrize("fault", [httpx.ReadTimeout("late"), httpx.ConnectError("away"), 503])
def test_a_wait_ends_in_time_where_the_server_does_not_answer(fault):
    clock, asked = _Clock(), []

    def answer(request):
        asked.append(request.extensions["timeout"]["read"])
        if len(asked) == 1:
            return httpx.Response(200, json=JOB)
        if isinstance(fault, int):
            return httpx.Response(fault, json={"code": "DATABASE_UNAVAILABLE"})
        raise fault

    with client_of(answer, clock) as client:
        job = client.job("x")
        with pytest.raises(TimeoutError, match=r"was not answered in time"):
            job.wait(timeout_s=0.4)
    assert (asked, clock.pauses) == ([30.0, 3.0], [])


def test_a_wait_that_has_time_is_tried_again_as_other_requests_are():
    clock, asked, away = _Clock(), [], httpx.ConnectError("away")

    def answer(request):
        asked.append(request.extensions["timeout"]["read"])
        if len(asked) == 2:
            raise away
        return httpx.Response(200, json=JOB | {"state": "succeeded"} if len(asked) > 2 else JOB)

    with client_of(answer, clock) as client:
        assert client.job("x").wait(timeout_s=3600).state == "succeeded"
    assert asked == [30.0, 60.0, 60.0]
    assert len(clock.pauses) == 1


@pytest.mark.parametrize("key", ["caf\u00e9", "a\r\nX-Other: b", "\ud800"])
def test_a_key_that_no_header_accepts_is_an_error_of_the_client(key):
    with pytest.raises(ClientError, match="printable ASCII"):
        next(request_job(1, {}, key))


def test_the_id_of_a_job_leads_nowhere_else():
    asked = []

    def answer(request):
        asked.append(request.url.raw_path)
        return httpx.Response(200, json=JOB)

    async def both():
        async with AsyncClient("http://lake", "t", transport=httpx.MockTransport(answer)) as client:
            await client.job("../tables/1/?x")

    with client_of(answer) as client:
        client.job("../tables/1/?x")
    asyncio.run(both())
    assert asked == [b"/api/v1/jobs/%2E%2E%2Ftables%2F1%2F%3Fx/"] * 2
