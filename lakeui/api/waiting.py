"""`wait`: a GET that is answered once there is news, or after so many seconds.

A request that waits holds a turn of the event loop, no database connection and no worker. It is
answered by its view, so that whoever lost the right to look meanwhile, signed out, or whose token
expired, gets the answer of that moment.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.db import DatabaseError, InterfaceError, connections
from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.problems import Problem, problem_response

LONGEST_S = 60
MOST_WAITING = 200  # in one web process, streams among them
MOST_OF_ONE = 100  # person: nobody keeps everybody else from waiting
PAUSE_S = 0.5
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
_waiting: Counter[Any] = Counter()  # by person


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
    """Have an answer wait until there is news. Held once already, it goes out as it is."""
    if seconds and not was_held(request._request):
        response.hold = (seconds, is_news)  # type: ignore[attr-defined]  # read by `held`
    return response


def was_held(request: HttpRequest) -> bool:
    """Whether this request has waited: what is counted by request counts it once."""
    return bool(getattr(request, "was_held", False))


def held(view: Callable[..., HttpResponse]) -> Callable[..., Coroutine[Any, Any, HttpResponse]]:
    """The view, as one whose answers may wait."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        ask = sync_to_async(view)
        response = await ask(request, *args, **kwargs)
        seconds, is_news = getattr(response, "hold", (0, None))
        if is_news is None:
            return response
        if (refusal := full(request)) is not None:
            return refusal
        place = Place(request.user.pk)
        try:
            await wait_for(is_news, seconds)
        finally:
            place.leave()
        request.was_held = True  # type: ignore[attr-defined]  # read by `was_held`
        forget_who_asks(request)
        return await ask(request, *args, **kwargs)

    return answer


def full(request: HttpRequest) -> HttpResponse | None:
    """The refusal where as many wait already as a process, or a person, may have."""
    is_full = _waiting.total() >= MOST_WAITING or _waiting[request.user.pk] >= MOST_OF_ONE
    return problem_response(request, TOO_MANY) if is_full else None


def forget_who_asks(request: HttpRequest) -> None:
    """Have the session and its person be looked up again: they are those of the request's begin."""
    session = getattr(request, "session", None)
    if session is not None:
        request.session = type(session)(session.session_key)
        vars(request).pop("_cached_user", None)
        request.user = SimpleLazyObject(lambda: get_user(request))  # type: ignore[assignment]


class Place:
    """One of those that a process has for requests that wait: taken when it is made, left once."""

    def __init__(self, who: Any) -> None:
        self._who, self._is_left = who, False
        _waiting[who] += 1

    def leave(self) -> None:
        """Free it; doing so again changes nothing."""
        if self._is_left:
            return
        self._is_left = True
        _waiting[self._who] -= 1
        if not _waiting[self._who]:
            del _waiting[self._who]


async def wait_for(is_news: Callable[[], bool], seconds: float) -> None:
    """Until there is news or the time is over. The caller who goes away ends it.

    So does a database that is away: the view, asked once more, tells it as views do.
    """
    until = monotonic() + seconds
    while not await sync_to_async(_asked)(is_news):
        left = until - monotonic()
        if left <= 0:
            return
        await asyncio.sleep(min(PAUSE_S, left))


def _asked(is_news: Callable[[], bool]) -> bool:
    """Ask, and leave no connection open while the request sleeps."""
    try:
        return is_news()
    except (DatabaseError, InterfaceError):
        return True
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
