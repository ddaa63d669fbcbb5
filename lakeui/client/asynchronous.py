"""The client for event loops: `synchronous` with `await`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Self, TypeVar

import httpx

from lakeui.client import flows
from lakeui.client.commands import Commands
from lakeui.client.flows import ClientCall, Flow
from lakeui.client.records import Conflict, JobRecord, TableRecord

T = TypeVar("T")


class AsyncClient:
    """A connection to one installation, as `Client` is.

    Args:
        url: where it is; "" takes LAKEUI_URL.
        token: an API token; "" takes LAKEUI_TOKEN.
        transport: httpx's, for tests and proxies.

    Raises:
        ClientError: there is no URL or no token.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**flows.options(url, token), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def table(self, name: str) -> "AsyncTable":
        """Return the table of a name.

        Raises:
            ApiError: 404, there is none visible to the token.
        """
        return AsyncTable(self, await self.play(flows.find_table(name)))

    async def job(self, job_id: str) -> "AsyncJob":
        """Return a job by its id."""
        return AsyncJob(self, await self.play(flows.read_job(job_id)))

    async def conflict(self, conflict_id: int) -> Conflict:
        """Return one conflict, with both sides and how to avoid it in `raw`."""
        return await self.play(flows.read_conflict(conflict_id))

    async def conflicts(self, **filters: str) -> AsyncIterator[Conflict]:
        """Conflicts, the latest first, by the filters of the list: `table`, `kind`, `since` and others."""
        token: str | None = ""
        while token is not None:
            page = await self.play(flows.page_of_conflicts(filters, token))
            for conflict in page.rows:
                yield conflict
            token = page.next_token

    async def play(self, flow: Flow[T]) -> T:
        """Carry a flow out."""
        answer: httpx.Response | None = None
        failure: httpx.RequestError | None = None
        while True:
            try:
                step = flow.send(answer) if failure is None else flow.throw(failure)
            except StopIteration as end:
                done: T = end.value
                return done
            answer = failure = None
            if not isinstance(step, ClientCall):
                await asyncio.sleep(step.seconds)
                continue
            try:
                answer = await self._http.request(**flows.arguments(step))
            except httpx.RequestError as error:
                failure = error


class AsyncJob:
    """A job: `record` is its last known state."""

    def __init__(self, client: AsyncClient, record: JobRecord) -> None:
        self._client, self.record = client, record

    @property
    def id(self) -> str:
        """The job's id."""
        return self.record.id

    async def refresh(self) -> JobRecord:
        """Read it again."""
        self.record = await self._client.play(flows.read_job(self.id))
        return self.record

    async def wait(self, timeout_s: float | None = None) -> JobRecord:
        """Wait until the job succeeds.

        Raises:
            WriteConflictError: it was aborted by a conflict, which the error has.
            JobCancelledError: it was cancelled.
            JobFailedError: it failed.
            TimeoutError: it has not ended in time; it goes on.
        """
        self.record = await self._client.play(flows.wait_for_job(self.id, timeout_s))
        return self.record

    async def cancel(self) -> JobRecord:
        """Request cancellation; a job whose commit has begun completes."""
        self.record = await self._client.play(flows.act_on_job(self.id, "cancel"))
        return self.record

    async def retry(self) -> "AsyncJob":
        """Run the same command again, as a job of its own."""
        return AsyncJob(self._client, await self._client.play(flows.act_on_job(self.id, "retry")))


class AsyncTable(Commands[Awaitable[AsyncJob]]):
    """A table: `record` is its last known state. Its commands are awaited."""

    def __init__(self, client: AsyncClient, record: TableRecord) -> None:
        self._client, self.record = client, record

    async def refresh(self) -> TableRecord:
        """Read it again."""
        flow = flows.read_table(self.record.id, after_version=None, within_s=0)
        self.record = await self._client.play(flow)
        return self.record

    async def wait_for_version(self, after: int, within_s: float) -> TableRecord:
        """Wait for a later version than `after`; return the table then, or after `within_s`."""
        flow = flows.read_table(self.record.id, after_version=after, within_s=within_s)
        self.record = await self._client.play(flow)
        return self.record

    def conflicts(self, **filters: str) -> AsyncIterator[Conflict]:
        """Return its conflicts, the latest first."""
        return self._client.conflicts(table=self.record.name, **filters)

    async def _request(self, body: Mapping[str, Any], key: str) -> AsyncJob:
        record = await self._client.play(flows.request_job(self.record.id, body, key))
        return AsyncJob(self._client, record)
