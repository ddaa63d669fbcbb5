"""Requests that wait for news: `wait`, answered once, and `stream/`, with an event at each change.

The view itself answers, so that a caller who lost access, signed out, or whose token expired
meanwhile gets the answer of that moment.
"""

import functools
import json
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui import event_streams
from lakeui.api.problems import Problem, problem_response
from lakeui.api.rendering import SafeJSONRenderer
from lakeui.event_streams import (
    CONTENT_TYPE,
    StreamSlot,
    StreamState,
    forget_user,
    has_place,
    wait_for,
    was_held,
)

LONGEST_S = 60
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of the state that you have. If it is still current, the answer is 304 "
    "without a body.",
)
TOO_MANY = Problem(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="TOO_MANY_WAITS",
    detail="Too many requests are already waiting. Send it again later, or without `wait`.",
    headers={"Retry-After": "5"},
)

LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    str,
    OpenApiParameter.HEADER,
    description="The `id` of your last event. The stream then starts with a newer event.",
)
ENDED = {
    204: OpenApiResponse(None, "The job has ended and you have its last event. Do not reconnect.")
}
_NAME_AND_ID = {"id": {"type": "string"}, "event": {"type": "string"}}


class WaitSerializer(serializers.Serializer[Any]):
    """The longest wait of an answer for news."""

    wait = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        max_value=LONGEST_S,
        help_text="Wait up to this many seconds for a change before answering.",
    )


def hold(
    request: Request, response: Response, seconds: int, is_news: Callable[[], bool]
) -> Response:
    """Have an answer wait until there is news. A held answer is sent as it is."""
    if seconds and not was_held(request._request):
        response.hold = (seconds, is_news)  # type: ignore[attr-defined]  # read by `allow_waiting`
    return response


def allow_waiting(
    view: Callable[..., HttpResponse],
) -> Callable[..., Coroutine[Any, Any, HttpResponse]]:
    """Wrap the view so that its answers may wait."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        ask = sync_to_async(view)
        response = await ask(request, *args, **kwargs)
        seconds, is_news = getattr(response, "hold", (0, None))
        if is_news is None:
            return response
        if not has_place(request):
            return refuse_to_wait(request)
        place = StreamSlot(request.user.pk)
        try:
            await wait_for(is_news, seconds, place)
        finally:
            place.leave()
        request.was_held = True  # type: ignore[attr-defined]  # read by `was_held`
        forget_user(request)
        return await ask(request, *args, **kwargs)

    return answer


def refuse_to_wait(request: HttpRequest) -> HttpResponse:
    """Return the refusal for too many waiting requests of a process or a person."""
    return problem_response(request, TOO_MANY)


class EventStreamRenderer(BaseRenderer):
    """Makes `Accept: text/event-stream` acceptable; the body is built below."""

    media_type = CONTENT_TYPE
    format = "events"
    charset = "utf-8"


def stream_of(schema: str) -> dict[tuple[int, str], OpenApiResponse]:
    """Return the answer's schema: an event whose data is JSON of a named schema."""
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
    told = "Events. The last event may be a `problem` with problem details as data."
    return {(200, CONTENT_TYPE): OpenApiResponse(event, told)}


def tell(
    event: str, state: str, body: Mapping[str, Any], differs: Callable[[], bool], *, is_over: bool
) -> Response:
    """Answer in a `stream_view`, with the current state."""
    response = Response()
    data = SafeJSONRenderer().render(body).decode()
    response.news = StreamState(event, state, data, is_over, differs)  # type: ignore[attr-defined]
    return response


def stream_view(view: Callable[..., HttpResponse]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the view with continued answers."""
    return event_streams.stream_view(view, refuse_to_wait, _render_problem)


def _render_problem(response: HttpResponse) -> bytes:
    """Render an event without an id, so that the reader's next request begins here."""
    try:
        problem = json.loads(response.content)
    except ValueError:  # a page, or nothing
        problem = {"status": response.status_code, "title": HTTPStatus(response.status_code).phrase}
    return b"event: problem\ndata: %s\n\n" % json.dumps(problem).encode()
