"""`stream/`: a GET with a server-sent event at each change."""

import json
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from lakeui import event_streams
from lakeui.api.long_polling import refuse_to_wait
from lakeui.api.rendering import SafeJSONRenderer
from lakeui.event_streams import CONTENT_TYPE, StreamState

LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    str,
    OpenApiParameter.HEADER,
    description="The `id` of the last event that you have: the first one sent is another.",
)
ENDED = {204: OpenApiResponse(None, "It has ended, and you have its last event: ask no more.")}
_NAME_AND_ID = {"id": {"type": "string"}, "event": {"type": "string"}}


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
    told = "Events; the last one may be a `problem`, whose data is one."
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
