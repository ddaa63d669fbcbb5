"""The client's requests, step by step, without sending or waiting.

A flow is a generator: it yields a `ClientCall` and is sent the answer, or yields a `Pause`. The
synchronous and the asynchronous client only carry these out, so both behave alike.
"""

import os
import random
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import monotonic, time
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from lakeui.client.errors import (
    ApiError,
    ClientError,
    JobCancelledError,
    JobFailedError,
    NotReachedError,
    WriteConflictError,
)
from lakeui.client.records import Conflict, JobRecord, JobState, TableRecord

PREFIX = "/api/v1/"
LONGEST_WAIT_S = 30
"""How long the server is asked to hold an answer; a proxy may allow no more than a minute."""
ANSWER_S = 30.0
"""Time limit of an answer beyond that."""
LEAST_ANSWER_S = 3.0
TRIES = 6
LONGEST_PAUSE_S = 60.0
_AGAIN = frozenset({429, 502, 503, 504})
_PAGE = 200
_REST_S = 1.0


@dataclass(frozen=True)
class ClientCall:
    """A request to make."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    until: float | None = None

    @property
    def answer_s(self) -> float:
        """How long to wait for the answer: to `until`, a moment of `monotonic`, and for a little at least."""
        longest = ANSWER_S + self.wait_s
        if self.until is None:
            return longest
        return min(longest, max(LEAST_ANSWER_S, self.until - monotonic()))


@dataclass(frozen=True)
class Pause:
    """A time to wait."""

    seconds: float


T = TypeVar("T")
Flow = Generator[ClientCall | Pause, httpx.Response | None, T]


def options(url: str, token: str) -> dict[str, Any]:
    """Return the arguments of both kinds of httpx client; "" takes LAKEUI_URL and LAKEUI_TOKEN.

    Raises:
        ClientError: the server's URL or the token is missing.
    """
    place = url or os.environ.get("LAKEUI_URL", "")
    secret = token or os.environ.get("LAKEUI_TOKEN", "")
    if not place.startswith(("http://", "https://")):
        msg = "Pass the server's URL with http:// or https://, or set LAKEUI_URL."
        raise ClientError(msg)
    if not secret.isascii() or not secret.isprintable() or not secret:
        msg = (
            "Pass a token, or set LAKEUI_TOKEN. Tokens are created under tokens/ of the REST "
            "interface."
        )
        raise ClientError(msg)
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/json"}
    return {"base_url": place.rstrip("/"), "headers": headers, "timeout": ANSWER_S}


def arguments(call: ClientCall) -> dict[str, Any]:
    """Return a call as arguments of httpx."""
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params),
        "json": None if call.body is None else dict(call.body),
        "headers": dict(call.headers),
        "timeout": call.answer_s,
    }


def answer(call: ClientCall) -> Flow[httpx.Response]:
    """Return the answer to a call; repeat it after a pause if the server is busy or unreachable.

    Raises:
        ApiError: the answer is not a success.
        NotReachedError: no answer after several tries.
        TimeoutError: no time is left for another try.
    """
    for tries_left in reversed(range(TRIES)):
        try:
            response = yield call
        except httpx.RequestError as error:
            if not tries_left:
                msg = f"{call.method} {call.path}: {type(error).__name__} {error}".rstrip()
                raise NotReachedError(msg) from error
            yield from _pause_before_retry(call, _pause(TRIES - tries_left), error)
            continue
        if not isinstance(response, httpx.Response):
            raise TypeError(response)
        if response.is_success:
            return response
        failure = ApiError(response.status_code, _problem(response))
        if response.status_code not in _AGAIN or not tries_left:
            raise failure
        yield from _pause_before_retry(
            call, _retry_after(response) or _pause(TRIES - tries_left), failure
        )
    raise AssertionError


def _pause_before_retry(call: ClientCall, seconds: float, failure: Exception) -> Iterator[Pause]:
    """Pause before the next try, unless the call's time is over by then."""
    if call.until is not None and monotonic() + seconds >= call.until:
        msg = f"{call.method} {call.path} was not answered in time: {failure}"
        raise TimeoutError(msg) from failure
    yield Pause(seconds)


def _pause(tries: int) -> float:
    """Longer with every try, and another for every caller."""
    return min(0.5 * 2.0**tries, LONGEST_PAUSE_S) * random.uniform(0.5, 1)  # noqa: S311 - no secret


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds that the server asks for; 0 if it gives none."""
    given = response.headers.get("Retry-After", "").strip()
    try:
        seconds = float(given) if given.isdigit() else _seconds_until(given)
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE_S)


def _seconds_until(date: str) -> float:
    at: float = parsedate_to_datetime(date).timestamp() if date else 0.0
    return at - time()


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except (ValueError, RecursionError):  # a proxy's page
        body = None
    return body if isinstance(body, dict) else {"detail": response.reason_phrase}


def read(call: ClientCall, of: Callable[[Any], T]) -> Flow[T]:
    """Return the JSON answer of a call, converted by `of`.

    Raises:
        ApiError: the conversion fails, or as `answer`.
    """
    response = yield from answer(call)
    try:
        return of(response.json())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        detail = "The answer is not from this interface. It may be from a proxy or another version."
        raise ApiError(
            response.status_code, {"code": "UNEXPECTED_ANSWER", "detail": detail}
        ) from error


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list, and the token of the next ones; None at the end."""

    rows: tuple[T, ...]
    next_token: str | None


def _page(call: ClientCall, of: Callable[[Any], T]) -> Flow[Page[T]]:
    def page_of(told: Any) -> Page[T]:  # noqa: ANN401 - JSON
        token = told["next_page_token"]
        if token is not None and token == call.params.get("page_token"):
            raise ValueError(token)  # it would never end
        return Page(tuple(map(of, told["items"])), token)

    return (yield from read(call, page_of))


def find_table(name: str) -> Flow[TableRecord]:
    """Return the table of a name.

    Raises:
        ApiError: 404, there is none visible to the token.
    """
    query: dict[str, Any] = {"q": name, "page_size": _PAGE}
    while True:
        page = yield from _page(
            ClientCall("GET", PREFIX + "tables/", query), TableRecord.from_answer
        )
        for table in page.rows:
            if table.name.lower() == name.lower():
                return table
        if page.next_token is None:
            break
        query = {**query, "page_token": page.next_token}
    problem = {
        "code": "NOT_FOUND",
        "detail": f"There is no table {name}, or this token may not see it.",
    }
    raise ApiError(404, problem)


def _rest(asked_at: float, left: float | None = None) -> Iterator[Pause]:
    """Pause if the server did not hold its answer, as a proxy or an old version does not."""
    if monotonic() - asked_at < _REST_S and (left is None or left > 0):
        yield Pause(_REST_S if left is None else min(_REST_S, left))


def read_table(table_id: int, *, after_version: int | None, within_s: float) -> Flow[TableRecord]:
    """Return the table once its version is later than one, or as it is when the time is over."""
    until = monotonic() + within_s
    while True:
        left = max(0, min(LONGEST_WAIT_S, round(until - monotonic())))
        query = {} if after_version is None else {"wait": left, "after_version": after_version}
        call = ClientCall("GET", f"{PREFIX}tables/{table_id}/", query, wait_s=float(left))
        asked_at = monotonic()
        table = yield from read(call, TableRecord.from_answer)
        is_news = table.version is not None and (
            after_version is None or table.version > after_version
        )
        if is_news or not left:
            return table
        yield from _rest(asked_at, until - monotonic())


def request_job(table_id: int, command: Mapping[str, Any], key: str) -> Flow[JobRecord]:
    """Request a new job. Without a caller's key it gets its own, so that it is requested once.

    Raises:
        ClientError: the key cannot stand in a header.
    """
    if not key.isascii() or (key and not key.isprintable()):
        msg = f"The idempotency key {key!r} has characters that are not printable ASCII."
        raise ClientError(msg)
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    call = ClientCall("POST", f"{PREFIX}tables/{table_id}/jobs/", body=command, headers=headers)
    return (yield from read(call, JobRecord.from_answer))


def act_on_job(job_id: str, verb: str) -> Flow[JobRecord]:
    """Cancel a job, or run it again; return the cancelled or the new job."""
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    call = ClientCall("POST", f"{PREFIX}jobs/{_segment(job_id)}:{verb}", body={}, headers=headers)
    return (yield from read(call, JobRecord.from_answer))


def read_job(job_id: str, wait_s: int = 0, until: float | None = None) -> Flow[JobRecord]:
    """Return a job, at once or when it has ended, at the latest after `wait_s`."""
    query = {"wait": wait_s} if wait_s else {}
    path = f"{PREFIX}jobs/{_segment(job_id)}/"
    call = ClientCall("GET", path, query, wait_s=float(wait_s), until=until)
    return (yield from read(call, JobRecord.from_answer))


def wait_for_job(job_id: str, timeout_s: float | None) -> Flow[JobRecord]:
    """Wait until a job succeeds.

    Raises:
        WriteConflictError: it was aborted by a conflict.
        JobCancelledError, JobFailedError: it ended otherwise.
        TimeoutError: it has not ended in time, or the server did not report it; it goes on.
    """
    until = None if timeout_s is None else monotonic() + timeout_s
    while True:
        left = LONGEST_WAIT_S if until is None else round(until - monotonic())
        asked_at = monotonic()
        job = yield from read_job(job_id, max(0, min(LONGEST_WAIT_S, left)), until)
        if job.has_ended:
            break
        if left <= 0:
            msg = f"Job {job_id} is {job.state} after {timeout_s:g} seconds. It continues."
            raise TimeoutError(msg)
        yield from _rest(asked_at, None if until is None else until - monotonic())
    if job.state == JobState.CONFLICTED:
        raise WriteConflictError(job, (yield from _conflict_of(job)))
    if job.state == JobState.CANCELLED:
        raise JobCancelledError(job)
    if job.state != JobState.SUCCEEDED:
        raise JobFailedError(job)
    return job


def _conflict_of(job: JobRecord) -> Flow[Conflict | None]:
    """Return the conflict that ended the job: the latest of those that aborted an attempt."""
    for conflict_id in sorted(job.conflict_ids, reverse=True):
        try:
            conflict = yield from read_conflict(conflict_id)
        except ApiError:
            continue
        if conflict.kind == "aborted":
            return conflict
    return None


def read_conflict(conflict_id: int) -> Flow[Conflict]:
    """Return one conflict, with both sides and how to avoid it in `raw`."""
    return (
        yield from read(
            ClientCall("GET", f"{PREFIX}conflicts/{conflict_id}/"), Conflict.from_answer
        )
    )


def page_of_conflicts(filters: Mapping[str, Any], page_token: str) -> Flow[Page[Conflict]]:
    """Return a page of conflicts, latest first."""
    query = {**filters, "page_size": _PAGE, **({"page_token": page_token} if page_token else {})}
    return (yield from _page(ClientCall("GET", PREFIX + "conflicts/", query), Conflict.from_answer))


def _segment(text: str) -> str:
    """Quote a part of an address."""
    return quote(text, safe="").replace(".", "%2E")
