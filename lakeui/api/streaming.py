"""`stream/`: a GET whose answer goes on, with a server-sent event at each change.

Its view answers anew for each event, and every few seconds without one: whose token expired or was
revoked meanwhile, who signed out or lost the right to look is sent the refusal, and the stream ends.
What changed is looked for as by a request that waits.
"""

import asyncio
import functools
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from lakeui.api.rendering import SafeJSONRenderer
from lakeui.api.waiting import Place, forget_who_asks, full, wait_for

LONGEST_S = 300.0
"""A stream ends after that, and its reader opens the next: a web process can be stopped."""
CHECK_S = 10.0
"""The view is asked at least that often; the comment that is sent keeps proxies from closing."""
GRACE_S = 10.0
"""So much later it is cut, if its reader takes nothing and what is to be sent cannot be."""
CONTENT_TYPE = "text/event-stream"
LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    str,
    OpenApiParameter.HEADER,
    description="The `id` of the last event that you have: the first one sent is another.",
)
ENDED = {204: OpenApiResponse(None, "It has ended, and you have its last event: ask no more.")}
_NAME_AND_ID = {"id": {"type": "string"}, "event": {"type": "string"}}


@dataclass(frozen=True)
class News:
    """What a stream tells: how things are now, and what says that they are otherwise.

    Attributes:
        event: the name of the event.
        state: another text for any other state.
        body: the event's JSON.
        is_over: nothing comes after it.
        differs: whether the state is another one by now.
    """

    event: str
    state: str
    body: Mapping[str, Any]
    is_over: bool
    differs: Callable[[], bool]


class EventStreamRenderer(BaseRenderer):
    """Has `Accept: text/event-stream` be understood; what is sent is made below."""

    media_type = CONTENT_TYPE
    format = "events"
    charset = "utf-8"


def stream_of(schema: str) -> dict[tuple[int, str], OpenApiResponse]:
    """The answer in the document: an event, with JSON of a schema's name as its data."""
    data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"$ref": f"#/components/schemas/{schema}"},
    }
    event = {
        "type": "object",
        "required": ["event", "data"],
        "properties": _NAME_AND_ID | {"data": data},
    }
    told = "Events; the last one may be a `problem`, whose data is one."
    return {(200, CONTENT_TYPE): OpenApiResponse(event, told)}


def tell(news: News) -> Response:
    """The answer of a view that is `streamed`."""
    response = Response()
    response.news = news  # type: ignore[attr-defined]  # read by `streamed`
    return response


def streamed(view: Callable[..., HttpResponse]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The view, as one whose answers go on."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        ask = functools.partial(sync_to_async(view), request, *args, **kwargs)
        response = await ask()
        news: News | None = getattr(response, "news", None)
        if news is None:
            return response
        told = request.headers.get("Last-Event-ID", "")
        if news.is_over and told == news.state:
            return HttpResponse(status=HTTPStatus.NO_CONTENT)
        if (refusal := full(request)) is not None:
            return refusal
        request.was_held = True  # type: ignore[attr-defined]  # counted as one request
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return HttpResponse(content_type=CONTENT_TYPE, headers=headers)
        place = Place(request.user.pk)  # from here on: between streams that begin at once too
        events = _events(request, ask, news, told, place)
        going = StreamingHttpResponse(events, content_type=CONTENT_TYPE, headers=headers)
        weakref.finalize(going, place.leave)  # the events of one that never began end nothing
        return going

    return answer


async def _events(
    request: HttpRequest,
    ask: Callable[[], Awaitable[HttpResponse]],
    news: News,
    told: str,
    place: Place,
) -> AsyncIterator[bytes]:
    task = asyncio.current_task()
    cut = asyncio.get_running_loop().call_later(LONGEST_S + GRACE_S, task.cancel) if task else None
    try:
        async for part in _parts(request, ask, news, told):
            yield part
    finally:
        if cut is not None:
            cut.cancel()
        place.leave()


async def _parts(
    request: HttpRequest, ask: Callable[[], Awaitable[HttpResponse]], news: News, told: str
) -> AsyncIterator[bytes]:
    until = monotonic() + LONGEST_S
    while True:
        yield b": nothing new\n\n" if news.state == told else _event(news)
        told = news.state
        left = until - monotonic()
        if news.is_over or left <= 0:
            return
        await wait_for(news.differs, min(CHECK_S, left))
        forget_who_asks(request)
        response = await ask()
        later: News | None = getattr(response, "news", None)
        if later is None:
            yield _problem(response)
            return
        news = later


def _event(news: News) -> bytes:
    data = SafeJSONRenderer().render(news.body)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (news.state.encode(), news.event.encode(), data)


def _problem(response: HttpResponse) -> bytes:
    """Without an id, so that the reader's next request begins where this stream ended."""
    try:
        problem = json.loads(response.content)
    except ValueError:  # a page, or nothing
        problem = {"status": response.status_code, "title": HTTPStatus(response.status_code).phrase}
    return b"event: problem\ndata: %s\n\n" % json.dumps(problem).encode()
