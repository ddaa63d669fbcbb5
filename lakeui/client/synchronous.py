"""The blocking client."""

from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

import httpx

from engine.clock import Clock, SystemClock
from lakeui.client import flows
from lakeui.client.commands import Commands
from lakeui.client.flows import ClientCall, Flow
from lakeui.client.records import Conflict, JobRecord, TableRecord

T = TypeVar("T")


class Client:
    """A connection to one installation.

    If the server is busy or unreachable, requests are repeated after the pause that it asks for, up
    to six times; those that change something carry an idempotency key, so none is done twice.
    Threads may share the client.

    Args:
        url: the server's URL, such as https://lake.example; "" takes LAKEUI_URL.
        token: an API token; "" takes LAKEUI_TOKEN.
        transport: httpx's, for tests and proxies.
        clock: pauses between tries.

    Raises:
        ClientError: there is no URL or no token.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._http = httpx.Client(**flows.options(url, token), transport=transport)
        self._clock = clock or SystemClock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def table(self, name: str) -> "Table":
        """Return the table of a name.

        Raises:
            ApiError: 404, there is none visible to the token.
        """
        return Table(self, self.play(flows.find_table(name)))

    def job(self, job_id: str) -> "Job":
        """Return a job by its id."""
        return Job(self, self.play(flows.read_job(job_id)))

    def conflict(self, conflict_id: int) -> Conflict:
        """Return one conflict, with both sides and how to avoid it in `raw`."""
        return self.play(flows.read_conflict(conflict_id))

    def conflicts(self, **filters: str) -> Iterator[Conflict]:
        """Conflicts, the latest first, by the filters of the list: `table`, `kind`, `since` and others."""
        token: str | None = ""
        while token is not None:
            page = self.play(flows.page_of_conflicts(filters, token))
            yield from page.rows
            token = page.next_token

    def play(self, flow: Flow[T]) -> T:
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
                self._clock.pause(step.seconds)
                continue
            try:
                answer = self._http.request(**flows.arguments(step))
            except httpx.RequestError as error:
                failure = error


class Job:
    """A job: `record` is its last known state."""

    def __init__(self, client: Client, record: JobRecord) -> None:
        self._client, self.record = client, record

    @property
    def id(self) -> str:
        """The job's id."""
        return self.record.id

    def refresh(self) -> JobRecord:
        """Read it again."""
        self.record = self._client.play(flows.read_job(self.id))
        return self.record

    def wait(self, timeout_s: float | None = None) -> JobRecord:
        """Wait until the job succeeds.

        Raises:
            WriteConflictError: it was aborted by a conflict, which the error has.
            JobCancelledError: it was cancelled.
            JobFailedError: it failed.
            TimeoutError: it has not ended in time; it goes on.
        """
        self.record = self._client.play(flows.wait_for_job(self.id, timeout_s))
        return self.record

    def cancel(self) -> JobRecord:
        """Request cancellation; a job whose commit has begun completes."""
        self.record = self._client.play(flows.act_on_job(self.id, "cancel"))
        return self.record

    def retry(self) -> "Job":
        """Run the same command again, as a job of its own."""
        return Job(self._client, self._client.play(flows.act_on_job(self.id, "retry")))


class Table(Commands[Job]):
    """A table: `record` is its last known state."""

    def __init__(self, client: Client, record: TableRecord) -> None:
        self._client, self.record = client, record

    def refresh(self) -> TableRecord:
        """Read it again."""
        flow = flows.read_table(self.record.id, after_version=None, within_s=0)
        self.record = self._client.play(flow)
        return self.record

    def wait_for_version(self, after: int, within_s: float) -> TableRecord:
        """Wait for a later version than `after`; return the table then, or after `within_s`."""
        flow = flows.read_table(self.record.id, after_version=after, within_s=within_s)
        self.record = self._client.play(flow)
        return self.record

    def conflicts(self, **filters: str) -> Iterator[Conflict]:
        """Return its conflicts, the latest first."""
        return self._client.conflicts(table=self.record.name, **filters)

    def _request(self, body: Mapping[str, Any], key: str) -> Job:
        return Job(self._client, self._client.play(flows.request_job(self.record.id, body, key)))
