"""`stream/` over the web server: its events, its readers, and its end."""

import asyncio
import gc
import json
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import timedelta

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from knox.models import get_token_model

from lakeui import event_streams
from lakeui.api import streaming
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job
from tests.e2e.server import run_server
from tests.lakeui.api.problem import problem
from tests.lakeui.people import grant, make_job, make_table, person

pytestmark = pytest.mark.timeout(180)

ApiToken = get_token_model()


class Reader:
    """The events of a stream, one by one; comments are counted separately."""

    def __init__(self, response: httpx.Response) -> None:
        self.response, self.comments = response, 0
        self._lines = response.iter_lines()

    def __next__(self) -> dict[str, str]:
        event: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif event:
                return event
        raise StopIteration

    def __iter__(self) -> "Reader":
        return self


@pytest.fixture(scope="module")
def web(django_db_setup, tmp_path_factory) -> Iterator[str]:
    """Yield a web server over the test's database, which sees everything that a test commits."""
    with run_server(
        tmp_path_factory.mktemp("web") / "log", {"API_RATE_PERSON": "10000/min"}
    ) as url:
        yield url


@pytest.fixture
def world(transactional_db, web):
    """Return a table, a running job on it, a person who may see it, and a web server over the database."""
    for name in ("viewer", "reporter"):
        Group.objects.get_or_create(name=name)
    table = make_table()
    guest = person("guest")
    grant(guest, table, "viewer")
    job = make_job(table, guest, state=Job.State.RUNNING)
    return web, table, job, guest


def token_of(user: User, role: Role = Role.VIEWER) -> tuple[str, str]:
    token, secret = ApiToken.objects.create(
        user=user, expiry=timedelta(hours=1), name="ci", role=role
    )
    return token.pk, secret


@contextmanager
def open_stream(url: str, path: str, secret: str, **headers: str) -> Iterator[Reader]:
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream", **headers}
    address = f"{url}/api/v1/{path}/stream/"
    with httpx.stream("GET", address, headers=headers, timeout=20) as response:
        yield Reader(response)


def test_a_job_is_streamed_step_by_step_until_it_has_ended(world):
    url, _, job, guest = world
    _, secret = token_of(guest)
    row = Job.objects.filter(pk=job.pk)
    with open_stream(url, f"jobs/{job.pk}", secret) as events:
        assert events.response.headers["content-type"] == "text/event-stream"
        assert events.response.headers["cache-control"] == "no-store"
        first = next(events)
        assert (first["event"], json.loads(first["data"])["state"]) == ("job", "running")
        row.update(progress_stage="write", progress_done=2)
        second = next(events)
        assert json.loads(second["data"])["progress"]["done"] == "2"
        row.update(state=Job.State.SUCCEEDED, committed_version=3)
        last = next(events)
        assert json.loads(last["data"])["committed_version"] == 3
        assert not list(events)
    assert len({event["id"] for event in (first, second, last)}) == 3
    with open_stream(url, f"jobs/{job.pk}", secret, **{"Last-Event-ID": first["id"]}) as events:
        assert [event["id"] for event in events] == [last["id"]]
    with open_stream(url, f"jobs/{job.pk}", secret, **{"Last-Event-ID": last["id"]}) as events:
        assert events.response.status_code == 204


def test_a_table_is_streamed_at_each_version_and_to_readers_who_missed_one(world):
    url, table, _, guest = world
    _, secret = token_of(guest)
    row = Table.objects.filter(pk=table.pk)
    with open_stream(url, f"tables/{table.pk}", secret) as events:
        first = next(events)
        row.update(version=8)
        assert json.loads(next(events)["data"])["version"] == 8
    with open_stream(url, f"tables/{table.pk}", secret, **{"Last-Event-ID": first["id"]}) as events:
        assert json.loads(next(events)["data"])["version"] == 8
        row.update(mirrored_at=timezone.now())  # which is no news
        row.update(version=9)
        told = next(events)
        assert json.loads(told["data"])["version"] == 9
    with open_stream(url, f"tables/{table.pk}", secret, **{"Last-Event-ID": told["id"]}) as events:
        row.update(version=10)
        assert json.loads(next(events)["data"])["version"] == 10
        assert events.comments, "what the reader has is not told again"


ENDS = {
    "expires": lambda token, _: ApiToken.objects.filter(pk=token).update(
        expiry=timezone.now() - timedelta(seconds=1)
    ),
    "is revoked": lambda token, _: ApiToken.objects.filter(pk=token).delete(),
    "is of an account that was disabled": lambda _, user: User.objects.filter(pk=user.pk).update(
        is_active=False
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_token_that_opens_no_more_ends_its_stream_before_the_next_event(world, end):
    url, table, job, guest = world
    for path, change in (
        (f"tables/{table.pk}", lambda: Table.objects.update(version=77)),
        (f"jobs/{job.pk}", lambda: Job.objects.update(progress_done=77)),
    ):
        token, secret = token_of(guest)
        with open_stream(url, path, secret) as events:
            next(events)
            ENDS[end](token, guest)
            change()
            [refusal] = events
        assert refusal["event"] == "problem"
        assert json.loads(refusal["data"])["status"] == 401
        assert "id" not in refusal
        assert "progress" not in refusal["data"]
        assert "version" not in refusal["data"]
        User.objects.update(is_active=True)


def test_a_quiet_stream_ends_soon_after_its_token(world):
    """Without news, the stream ends when the view next checks the token."""
    url, table, _, guest = world
    token, secret = token_of(guest)
    with open_stream(url, f"tables/{table.pk}", secret) as events:
        next(events)
        ENDS["is revoked"](token, guest)
        [refusal] = events
    assert json.loads(refusal["data"])["code"] == "AUTHENTICATION_FAILED"


def test_a_reader_who_loses_the_table_receives_nothing_more_of_it(world):
    url, table, job, guest = world
    _, secret = token_of(guest)
    with (
        open_stream(url, f"tables/{table.pk}", secret) as of_table,
        open_stream(url, f"jobs/{job.pk}", secret) as of_job,
    ):
        next(of_table), next(of_job)
        TableGrant.objects.all().delete()
        Table.objects.update(version=77)
        Job.objects.update(progress_done=77)
        for events in (of_table, of_job):
            [refusal] = events
            assert json.loads(refusal["data"])["status"] == 404
    with open_stream(url, f"tables/{table.pk}", secret) as events:
        assert events.response.status_code == 404


def test_a_person_who_may_not_see_the_table_has_no_stream_of_it(world):
    url, table, job, _ = world
    _, stranger = token_of(person("stranger"))
    _, reporter = token_of(person("program", "reporter"), Role.REPORTER)
    for path in (f"tables/{table.pk}", f"jobs/{job.pk}"):
        for secret, status in ((stranger, 404), (reporter, 403), ("lake_nobodys", 401)):
            with open_stream(url, path, secret) as events:
                assert events.response.status_code == status
                events.response.read()
                problem = events.response.json()
            assert (problem["status"], "sales" in json.dumps(problem)) == (status, False)


def test_a_job_that_names_a_hidden_table_is_shown_without_its_statement(world):
    url, table, job, guest = world
    _, secret = token_of(guest)
    words = {"kind": "insert", "parameters": {"source": "SELECT * FROM sales.secret"}}
    Job.objects.filter(pk=job.pk).update(state="failed", statement="… sales.secret", **words)
    with open_stream(url, f"jobs/{job.pk}", secret) as events:
        [told] = events
    assert json.loads(told["data"])["table"] == table.name
    assert "secret" not in told["data"]


def test_as_many_streams_as_a_person_may_have(client, db, monkeypatch):
    gc.collect()  # streams that other tests asked for in this process, and did not read
    assert not event_streams._waiting
    table, viewer = make_table(), person("viewer-ann")
    grant(viewer, table, "viewer")
    client.force_login(viewer)
    monkeypatch.setattr(event_streams, "MOST_OF_ONE", 0)
    answer = client.get(f"/api/v1/tables/{table.pk}/stream/")
    problem(answer, 503, "TOO_MANY_WAITS")
    monkeypatch.setattr(event_streams, "MOST_OF_ONE", 1)
    assert client.head(f"/api/v1/tables/{table.pk}/stream/").content == b""
    first = client.get(f"/api/v1/tables/{table.pk}/stream/")
    assert first.status_code == 200
    refused = client.get(f"/api/v1/tables/{table.pk}/stream/")
    problem(refused, 503, "TOO_MANY_WAITS")  # though the first has not sent anything yet
    del first
    gc.collect()
    assert not event_streams._waiting


def test_a_stream_whose_reader_reads_nothing_is_ended_and_frees_its_place(monkeypatch):
    monkeypatch.setattr(event_streams, "LONGEST_S", 0.05)
    monkeypatch.setattr(event_streams, "GRACE_S", 0.05)
    news = event_streams.StreamState("job", "1", "{}", is_over=False, differs=lambda: False)

    async def send_to_nobody() -> None:
        place = event_streams.StreamSlot(1)
        parts = event_streams._iter_parts(HttpRequest(), None, news, "", lambda _: b"", place)
        events = event_streams._iter_bounded(parts, place)
        async with aclosing(events):
            async for _ in events:
                await asyncio.Event().wait()  # as a send whose buffer is full

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(send_to_nobody(), 10))
    assert not event_streams._waiting


def test_a_refusal_that_is_no_json_is_reported_by_its_status():
    told = streaming._render_problem(HttpResponse("<h1>Away</h1>", status=503))
    assert json.loads(told.partition(b"data: ")[2])["status"] == 503
