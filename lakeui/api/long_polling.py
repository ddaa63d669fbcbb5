"""`wait`: a GET answered once there is news, or after so many seconds.

The view itself answers, so that a caller who lost access, signed out, or whose token expired
meanwhile gets the answer of that moment.
"""

import functools
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.problems import Problem, problem_response
from lakeui.event_streams import StreamSlot, forget_user, has_place, wait_for, was_held

LONGEST_S = 60
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of what you have: 304 without a body where it is the same.",
)
TOO_MANY = Problem(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="TOO_MANY_WAITS",
    detail="Too many requests wait here already. Ask again later, or without `wait`.",
    headers={"Retry-After": "5"},
)


class WaitSerializer(serializers.Serializer[Any]):
    """How long an answer may wait for news."""

    wait = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        max_value=LONGEST_S,
        help_text="Answer once there is news, at the latest after so many seconds.",
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
            await wait_for(is_news, seconds)
        finally:
            place.leave()
        request.was_held = True  # type: ignore[attr-defined]  # read by `was_held`
        forget_user(request)
        return await ask(request, *args, **kwargs)

    return answer


def refuse_to_wait(request: HttpRequest) -> HttpResponse:
    """Return the refusal for too many waiting requests of a process or a person."""
    return problem_response(request, TOO_MANY)
