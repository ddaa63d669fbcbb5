"""Bodies of requests, bounded before anything keeps them.

Django's ASGI handler writes a whole body to disk before it knows the sender. A body that is too
large is therefore refused here: by its declared length, or as it arrives if it declares none.
"""

import json
import re
import uuid
from http import HTTPStatus

from django.conf import settings

from lakeui.request_turns import App, Message, Receive, Scope, Send

_TAKES_FILES = re.compile(r"^/(api/v1/uploads|tables/upload|jobs/new)/$")
_FORM_AROUND_A_FILE = 1024 * 1024
_CODES = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "REQUEST_TOO_LARGE",
    HTTPStatus.TOO_MANY_REQUESTS: "THROTTLED",
}


class BoundedBodies:
    """The application, called only with bodies within their address's bounds; 413 for others."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = limit_of(scope["path"])
        if _content_length(scope) > limit:
            await _refuse_body(scope, send, limit)
            return
        taken = 0

        async def receive_bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return message if taken <= limit else {"type": "http.disconnect"}

        await self._app(scope, receive_bounded, send)
        if taken > limit:  # the application does not answer a disconnected client
            await _refuse_body(scope, send, limit)


def limit_of(path: str) -> int:
    """Return the most bytes of a request to this address."""
    if _TAKES_FILES.match(path):
        return int(settings.MAX_UPLOAD_BYTES) + _FORM_AROUND_A_FILE
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def _content_length(scope: Scope) -> int:
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(text) if text.isdigit() and len(text) < 20 else 0


async def refuse_to_queue(scope: Scope, send: Send) -> None:
    """Answer a client of whose requests too many already wait for a turn."""
    detail = "Too many of your requests are waiting already. Send it again later."
    await _refuse(scope, send, HTTPStatus.TOO_MANY_REQUESTS, detail, (b"retry-after", b"5"))


async def _refuse_body(scope: Scope, send: Send, limit: int) -> None:
    detail = f"The body is larger than {limit} bytes."
    await _refuse(scope, send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


async def _refuse(
    scope: Scope, send: Send, status: HTTPStatus, detail: str, *more: tuple[bytes, bytes]
) -> None:
    request_id, code = str(uuid.uuid4()), _CODES[status]
    is_rest = scope["path"].startswith("/api/")
    problem = {
        "type": f"urn:lakeui:problem:{code.lower()}",
        "title": status.phrase,
        "status": status.value,
        "code": code,
        "detail": detail,
        "instance": scope["path"],
        "request_id": request_id,
    }
    body = (json.dumps(problem) if is_rest else f"{detail}\n").encode()
    kind = b"application/problem+json" if is_rest else b"text/plain; charset=utf-8"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
