"""A browser's preferences: theme, zone, watched tables, hidden first steps. Cookies, no rows."""

import zoneinfo
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

THEMES = ("light", "system", "dark")
MAX_WATCHED = 12
_YEAR_SECONDS = 365 * 86_400


class ZoneMiddleware:
    """Shows and parses times in the reader's zone; UTC until they choose one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with timezone.override(zone_of(request)):
            return self.get_response(request)


def zone_of(request: HttpRequest) -> zoneinfo.ZoneInfo:
    """Return the zone in the reader's cookie, UTC if it names none."""
    return _zone(request.COOKIES.get("zone", "")) or zoneinfo.ZoneInfo("UTC")


def theme_of(request: HttpRequest) -> str:
    theme = request.COOKIES.get("theme", "")
    return theme if theme in THEMES else "system"


def read_watched_ids(request: HttpRequest) -> list[int]:
    """Primary keys of the tables in the reader's sidebar, as they were added."""
    texts = request.COOKIES.get("watched", "").split(".")
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 19][
        :MAX_WATCHED
    ]


def hides_first_steps(request: HttpRequest) -> bool:
    return request.COOKIES.get("first_steps") == "hidden"


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Store the posted preferences and return to the page."""
    response = redirect(_back(request))
    theme, zone = request.POST.get("theme"), request.POST.get("zone")
    if theme in THEMES:
        _remember(response, "theme", theme)
    if zone == "UTC":
        _remember(response, "zone", "UTC")
    elif zone == "local" and _zone(request.POST.get("zone_name", "")):
        _remember(response, "zone", request.POST["zone_name"])
    if request.POST.get("first_steps") == "hidden":
        _remember(response, "first_steps", "hidden")
    if "watch" in request.POST:
        _remember(
            response, "watched", _toggle_watched(read_watched_ids(request), request.POST["watch"])
        )
    return response


def _toggle_watched(watched: list[int], text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        kept = watched
    elif int(text) in watched:
        kept = [pk for pk in watched if pk != int(text)]
    else:
        kept = [int(text), *watched][:MAX_WATCHED]
    return ".".join(map(str, kept))


def _back(request: HttpRequest) -> str:
    target = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure())
    return target if safe else "/"


def _remember(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=_YEAR_SECONDS, samesite="Lax", httponly=True)


def _zone(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name) if name and len(name) < 64 else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
