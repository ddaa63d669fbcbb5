"""Requests that stay open: their slots, waiting, and server-sent events.

Pages and REST answer by the same functions. A waiting request holds a turn of the event loop, and
no database connection and no thread. A person has a limited number of slots in a web process. The
more of them a person uses, the less often each looks for news.

The view of a stream answers anew for each event, and every few seconds without one: a person whose
token expired or was revoked meanwhile, who signed out or lost access, is sent the refusal, and the
stream ends.
"""

import asyncio
import functools
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.db import DatabaseError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.functional import SimpleLazyObject

from lakeui.request_turns import close_connections, current_turn

MOST_WAITING = 200  # in one web process, streams among them
MOST_OF_ONE = 100  # person: nobody keeps everybody else from waiting
AT_FULL_PACE = 10  # waiting requests of a person
PAUSE_S = 0.5
LONGEST_S = 300.0
"""The longest stream, after which its reader opens the next: a web process can be stopped."""
CHECK_S = 10.0
"""The view is called this often; the comment that is sent keeps proxies from closing."""
MOST_CHECK_S = 40.0
GRACE_S = 10.0
"""Delay before a stream is cut whose reader takes nothing."""
CONTENT_TYPE = "text/event-stream"
_waiting: Counter[Any] = Counter()  # by person


@dataclass(frozen=True)
class StreamState:
    """The present state reported by a stream, and how to detect a change.

    Attributes:
        event: the name of the event.
        state: a text that differs for every other state.
        data: the event's data, one line.
        is_over: nothing comes after it.
        differs: whether the state has changed by now.
        last_event: the name of one more event that follows the last state; "" for none.
    """

    event: str
    state: str
    data: str
    is_over: bool
    differs: Callable[[], bool]
    last_event: str = ""


class StreamSlot:
    """One of a process's slots for waiting requests: taken when created, left once."""

    def __init__(self, person: object) -> None:
        self._person, self._is_left = person, False
        _waiting[person] += 1

    @property
    def slowness(self) -> float:
        """Return how many times longer its pauses are: more than 1 if its person has many slots."""
        return max(1.0, _waiting[self._person] / AT_FULL_PACE)

    def leave(self) -> None:
        """Free it; doing so again changes nothing."""
        if self._is_left:
            return
        self._is_left = True
        _waiting[self._person] -= 1
        if not _waiting[self._person]:
            del _waiting[self._person]


def has_place(request: HttpRequest) -> bool:
    """Whether one more request of this person may wait in this process."""
    return _waiting.total() < MOST_WAITING and _waiting[request.user.pk] < MOST_OF_ONE


def was_held(request: HttpRequest) -> bool:
    """Whether this request has waited: counters of requests count it once."""
    return bool(getattr(request, "was_held", False))


def forget_user(request: HttpRequest) -> None:
    """Reload the session and its person: they are those of the request's start."""
    session = getattr(request, "session", None)
    if session is not None:
        request.session = type(session)(session.session_key)
        vars(request).pop("_cached_user", None)
        vars(request).pop("_acached_user", None)
        request.user = SimpleLazyObject(lambda: get_user(request))  # type: ignore[assignment]


async def wait_for(is_news: Callable[[], bool], seconds: float, slot: StreamSlot) -> None:
    """Return once there is news or the time is over. A caller who disconnects ends it.

    An unreachable database ends it too: the view, called once more, reports it.
    """
    until, turn = monotonic() + seconds, current_turn()
    while True:
        if turn is not None:
            await turn.take()
        has_news = await sync_to_async(_ask)(is_news)
        left = until - monotonic()
        if has_news or left <= 0:
            return
        if turn is not None:
            turn.leave()
        await asyncio.sleep(min(PAUSE_S * slot.slowness, left))


def _ask(is_news: Callable[[], bool]) -> bool:
    """Check, and leave no connection open while the request sleeps."""
    try:
        return is_news()
    except (DatabaseError, InterfaceError):
        return True
    finally:
        close_connections()


def stream_view(
    view: Callable[..., HttpResponse],
    refuse: Callable[[HttpRequest], HttpResponse],
    render_problem: Callable[[HttpResponse], bytes],
    *,
    begins_silent: bool = False,
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the view with its answers continued as a stream.

    A response with an attribute `news` becomes the stream; any other is sent as it is. `refuse`
    answers if no slot is left, `render_problem` renders a later refusal of the view as the last
    event. A stream that begins silent sends nothing of the first state.
    """

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        ask = functools.partial(sync_to_async(view), request, *args, **kwargs)
        response = await ask()
        news: StreamState | None = getattr(response, "news", None)
        if news is None:
            return response
        sent_state = news.state if begins_silent else request.headers.get("Last-Event-ID", "")
        if news.is_over and sent_state == news.state and not begins_silent:
            return HttpResponse(status=HTTPStatus.NO_CONTENT)
        if not has_place(request):
            return refuse(request)
        request.was_held = True  # type: ignore[attr-defined]  # counted as one request
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return HttpResponse(content_type=CONTENT_TYPE, headers=headers)
        place = StreamSlot(request.user.pk)  # taken now, so that concurrent streams are counted
        parts = _iter_parts(request, ask, news, sent_state, render_problem, place)
        going = StreamingHttpResponse(
            _iter_bounded(parts, place), content_type=CONTENT_TYPE, headers=headers
        )
        weakref.finalize(going, place.leave)  # the events of an unstarted stream never end
        return going

    return answer


async def _iter_bounded(parts: AsyncIterator[bytes], place: StreamSlot) -> AsyncIterator[bytes]:
    task = asyncio.current_task()
    cut = asyncio.get_running_loop().call_later(LONGEST_S + GRACE_S, task.cancel) if task else None
    try:
        async for part in parts:
            yield part
    finally:
        if cut is not None:
            cut.cancel()
        place.leave()


async def _iter_parts(
    request: HttpRequest,
    ask: Callable[[], Awaitable[HttpResponse]],
    news: StreamState,
    sent_state: str,
    render_problem: Callable[[HttpResponse], bytes],
    place: StreamSlot,
) -> AsyncIterator[bytes]:
    until = monotonic() + LONGEST_S
    while True:
        yield b": nothing new\n\n" if news.state == sent_state else _render_event(news)
        sent_state = news.state
        if news.is_over and news.last_event:
            yield f"event: {news.last_event}\ndata: last\n\n".encode()
        left = until - monotonic()
        if news.is_over or left <= 0:
            return
        check_s = min(CHECK_S * place.slowness, MOST_CHECK_S, left)
        await wait_for(news.differs, check_s, place)
        forget_user(request)
        try:
            response = await ask()
        except Http404:
            response = HttpResponse(status=HTTPStatus.NOT_FOUND)
        later: StreamState | None = getattr(response, "news", None)
        if later is None:
            yield render_problem(response)
            return
        news = later


def _render_event(news: StreamState) -> bytes:
    return f"id: {news.state}\nevent: {news.event}\ndata: {news.data}\n\n".encode()
