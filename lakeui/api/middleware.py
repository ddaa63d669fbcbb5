"""A request id for every request, and a problem document for every failure under /api/."""

import re
import uuid
from http import HTTPStatus

from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.http import ConditionalGetMiddleware
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject

from lakeui.api.problems import CONTENT_TYPE, DATABASE_AWAY, problem_response, status_problem
from lakeui.api.unity.errors import PREFIX as UNITY
from lakeui.request_turns import ACCOUNT

_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
_CARRIED = ("Allow", "Retry-After", "WWW-Authenticate")
_BAD = HTTPStatus.BAD_REQUEST


class RequestIdMiddleware(MiddlewareMixin):
    """Keeps the caller's X-Request-ID if it is valid, else generates one; answers with it.

    It also handles failures of everything below it, views or not, and gives those under /api/ the
    standard shape.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _ID.fullmatch(given) else str(uuid.uuid4())
        request.META["HTTP_X_REQUEST_ID"] = request_id
        request.request_id = request_id  # type: ignore[attr-defined]
        if _holds_nul(request):
            return HttpResponse("The URL contains a NUL character.\n", "text/plain", _BAD)
        return None

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if _needs_shape(request, response):
            response = _convert_response(request, response)
        if (user := _user_of(request)) is not None and isinstance(request, ASGIRequest):
            request.scope[ACCOUNT] = user.pk  # type: ignore[index]  # read by `RequestsInTurn`
        if request.path_info.startswith("/api/"):
            response.headers.setdefault("Cache-Control", "private, no-cache")
        elif user is not None:
            response.headers.setdefault("Cache-Control", "private, no-store")
        response.headers["X-Request-ID"] = getattr(request, "request_id", "")
        return response


class NotModifiedMiddleware(ConditionalGetMiddleware):
    """ETags for REST answers, and 304 if unchanged; pages hold a token that always differs."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if not request.path_info.startswith("/api/"):
            return response
        return super().process_response(request, response)


def _holds_nul(request: HttpRequest) -> bool:
    """PostgreSQL takes none. Under /api/ the parameters are checked by name."""
    asked = "" if request.path_info.startswith("/api/") else request.META.get("QUERY_STRING", "")
    return "\0" in request.path_info or "%00" in asked


def _user_of(request: HttpRequest) -> User | None:
    """Return the user if the answer may show private content.

    If nothing has read the user, as for static files and probes, the database is not queried
    either.
    """
    user = getattr(request, "user", None)
    if type(user) is SimpleLazyObject:
        user = getattr(request, "_cached_user", None)
    return user if user is not None and user.is_authenticated else None


def _needs_shape(request: HttpRequest, response: HttpResponseBase) -> bool:
    failed = response.status_code >= HTTPStatus.BAD_REQUEST
    shaped = response.headers.get("Content-Type", "").startswith(CONTENT_TYPE)
    is_rest = request.path_info.startswith("/api/") and not request.path_info.startswith(UNITY)
    return failed and not shaped and is_rest


def _convert_response(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    is_away = (
        response.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    )  # other answers are problem documents
    problem = DATABASE_AWAY if is_away else status_problem(response.status_code)
    answer = problem_response(request, problem)
    for name in _CARRIED:
        if name in response.headers:
            answer.headers[name] = response.headers[name]
    return answer
