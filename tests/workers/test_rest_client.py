"""`lakeui.client` against the real REST interface and real jobs, with a server that fails at times."""

import asyncio
import subprocess
import sys

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application

from engine.table import DeltaTable
from lakeui import event_streams
from lakeui.catalog.models import Table
from lakeui.client import (
    ApiError,
    AsyncClient,
    Client,
    ClientError,
    JobCancelledError,
    JobFailedError,
    JobState,
    NotReachedError,
    WriteConflictError,
)
from lakeui.client.records import ENDED
from lakeui.jobs.models import Job
from tests.lakeui.people import make_conflict, make_job
from tests.services import ROOT
from workers import jobs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]
URL = "http://testserver"


class _Clock:
    """A clock whose pauses take no time and are recorded."""

    def __init__(self):
        self.pauses = []

    def pause(self, seconds):
        self.pauses.append(seconds)


class _Stumbling(httpx.BaseTransport):
    """The real application behind prepared answers that come first."""

    def __init__(self, *first):
        self.requests, self._first = [], list(first)
        self._application = httpx.WSGITransport(get_wsgi_application())

    def handle_request(self, request):
        self.requests.append(request)
        first = self._first.pop(0) if self._first else None
        if isinstance(first, httpx.Response):
            return first
        response = self._application.handle_request(request)
        if first is not None:  # done, and the answer is lost
            response.read()
            raise first
        return response


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    cache.clear()
    monkeypatch.setattr(event_streams, "PAUSE_S", 0.01)


@pytest.fixture
def client(token):
    with Client(URL, token, transport=_Stumbling(), clock=_Clock()) as opened:
        yield opened


@pytest.fixture
def work_queue(monkeypatch):
    """Run queued jobs when a request waits for them, at its second poll."""
    looks, asked = [], event_streams._ask

    def look(is_news):
        looks.append(1)
        if len(looks) % 2 == 0:
            for job in Job.objects.filter(state=Job.State.QUEUED):
                jobs.run_job.apply(args=[str(job.pk)])
        return asked(is_news)

    monkeypatch.setattr(event_streams, "_ask", look)


@pytest.mark.usefixtures("work_queue")
def test_a_delete_is_requested_awaited_and_seen(client, orders):
    table = client.table("Sales.Orders")
    job = table.delete("n = 2", reason="GDPR", retries=1)
    assert (job.record.state, job.record.has_ended) == ("queued", False)
    record = job.wait(timeout_s=60)
    assert (record.state, record.committed_version, record.metrics["numDeletedRows"]) == (
        "succeeded",
        2,
        1,
    )
    assert client.job(job.id).record == record
    assert sorted(DeltaTable.open(orders.uri).snapshot().to_arrow()["n"].to_pylist()) == [1, 3]
    assert table.wait_for_version(1, within_s=0).version == 2
    assert table.refresh().uri == orders.uri


@pytest.mark.usefixtures("work_queue")
def test_every_command_becomes_the_job_of_its_name(client, orders, settings):
    settings.DRY_RUNS_PER_PERSON = 6
    table = client.table("sales.orders")
    plans = [
        table.sql("DELETE FROM sales.orders WHERE n = 1", dry_run=True),
        table.update({"n": "n + 1"}, "n = 3", dry_run=True),
        table.optimize(dry_run=True),
        table.vacuum(dry_run=True),
        table.restore(0, dry_run=True),
        table.run("delete", {"where": None, "alias": "o"}, dry_run=True),
    ]
    kinds = ["delete", "update", "optimize", "vacuum", "restore", "delete"]
    assert [job.record.kind for job in plans] == kinds
    assert all(job.wait(60).plan for job in plans)
    assert DeltaTable.open(orders.uri).snapshot().version == 1


@pytest.mark.usefixtures("orders")
def test_a_lost_answer_does_not_make_a_second_job(token):
    clock, transport = _Clock(), _Stumbling()
    with Client(URL, token, transport=transport, clock=clock) as client:
        table = client.table("sales.orders")
        transport._first += [
            httpx.ReadTimeout("lost"),
            httpx.Response(503, headers={"Retry-After": "7"}),
        ]
        table.optimize()
    assert len({request.headers.get("Idempotency-Key") for request in transport.requests[-3:]}) == 1
    assert Job.objects.count() == 1
    assert clock.pauses[-1] == 7
    assert 0 < clock.pauses[0] <= 1


@pytest.mark.usefixtures("orders")
def test_a_key_of_the_callers_own_is_the_same_job_in_another_process(client):
    table = client.table("sales.orders")
    first = table.optimize(idempotency_key="nightly-1")
    assert table.optimize(idempotency_key="nightly-1").id == first.id
    with pytest.raises(ApiError) as refused:
        table.vacuum(idempotency_key="nightly-1")
    assert (refused.value.status, refused.value.code) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_conflict_is_an_error_that_has_both_sides(client, orders, ada):
    job = make_job(orders, ada, state=Job.State.CONFLICTED, error_code="DELTA_CONCURRENT_APPEND")
    conflict = make_conflict(orders, job)
    with pytest.raises(WriteConflictError, match="DELTA_CONCURRENT_APPEND") as aborted:
        client.job(str(job.pk)).wait()
    found = aborted.value.conflict
    assert (found.id, found.kind, found.table) == (conflict.pk, "aborted", "sales.orders")
    assert found.winner_operation == conflict.winner_operation
    assert found.raw["winner"]["operation"] == conflict.winner_operation
    listed = list(client.table("sales.orders").conflicts(kind="aborted"))
    assert [one.id for one in listed] == [conflict.pk]
    assert client.conflict(conflict.pk) == found
    with pytest.raises(ApiError, match="kind"):
        list(client.conflicts(kind="none of these"))


@pytest.mark.usefixtures("orders")
def test_jobs_that_end_otherwise_are_errors_of_their_own(client):
    table = client.table("sales.orders")
    job = table.optimize()
    assert job.cancel().state == "cancelled"
    with pytest.raises(JobCancelledError):
        job.wait()
    again = job.retry()
    assert again.id != job.id
    with pytest.raises(TimeoutError, match=r"queued after 0 seconds\. It continues"):
        again.wait(timeout_s=0)
    Job.objects.filter(pk=again.id).update(
        state=Job.State.FAILED, error_code="LAKE_X", error_message="It was so."
    )
    with pytest.raises(JobFailedError, match="LAKE_X: It was so"):
        again.wait()
    assert again.refresh().error_code == "LAKE_X"


def test_faults_of_a_request_are_reported_by_field(client, orders):
    table = client.table("sales.orders")
    with pytest.raises(ApiError) as refused:
        table.run("delete", {"nosuch": 1})
    assert refused.value.status == 422
    assert "nosuch" in str(refused.value.fields)
    with pytest.raises(ApiError) as missing:
        client.table("sales.nothing")
    assert (missing.value.status, missing.value.code) == (404, "NOT_FOUND")
    with pytest.raises(ApiError) as unknown, Client(URL, "wrong", transport=_Stumbling()) as other:
        other.table("sales.orders")
    assert unknown.value.status == 401


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [("3", 3), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("soon", None), ("999999", 60)],
)
def test_a_busy_server_is_asked_again_when_it_says(token, retry_after, pause):
    clock = _Clock()
    busy = httpx.Response(429, headers={"Retry-After": retry_after}, text="<html>")
    with Client(URL, token, transport=_Stumbling(busy), clock=clock) as client:
        client.table("sales.orders")
    assert clock.pauses == [pause] if pause else 0 < clock.pauses[0] <= 1


def _away(request):
    msg = "refused"
    raise httpx.ConnectError(msg, request=request)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_away, "GET /api/v1/tables/: ConnectError refused"),
        (lambda _: httpx.Response(502, text="a proxy's page"), r"HTTP_502 \(502\): Bad Gateway"),
    ],
)
def test_an_unreachable_server_is_asked_six_times(answer, error):
    clock = _Clock()
    client = Client(URL, "t", transport=httpx.MockTransport(answer), clock=clock)
    with client, pytest.raises((NotReachedError, ApiError), match=error):
        client.table("sales.orders")
    assert len(clock.pauses) == 5
    assert max(clock.pauses) > 4 * clock.pauses[0] > 0


@pytest.mark.parametrize(
    ("url", "token"), [("", "t"), ("lake.example", "t"), (URL, ""), (URL, "a\nb"), (URL, "é")]
)
def test_a_client_without_a_place_or_a_token_is_refused(monkeypatch, url, token):
    monkeypatch.delenv("LAKEUI_URL", raising=False)
    monkeypatch.delenv("LAKEUI_TOKEN", raising=False)
    with pytest.raises(ClientError, match="LAKEUI_"):
        Client(url, token)


@pytest.mark.usefixtures("work_queue", "orders")
def test_an_event_loop_does_the_same(token):
    async def program():
        transport = httpx.ASGITransport(get_asgi_application())
        async with AsyncClient(URL, token, transport=transport) as client:
            table = await client.table("sales.orders")
            both = await asyncio.gather(table.delete("n = 1"), table.optimize(dry_run=True))
            records = [await job.wait(60) for job in both]
            found = [conflict.kind async for conflict in table.conflicts()]
            with pytest.raises(ApiError):
                await client.conflict(0)
            return records, found, (await table.refresh()).version, await both[0].refresh()

    records, found, version, last = async_to_sync(program)()
    assert [record.state for record in records] == ["succeeded"] * 2
    assert (found, version) == ([], 2)
    assert last == records[0]
    assert Table.objects.get().version == 2


def test_the_client_knows_every_state_of_a_job():
    assert {state.value for state in JobState} == set(Job.State.values)
    assert {state.value for state in ENDED} == set(Job.ENDED)


def test_the_client_needs_neither_django_nor_spark():
    code = "import sys, lakeui.client; print(sorted({'django', 'pyspark', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
