"""Error pages, and the answer to changes while the installation is read-only.

They state the event and the next step, never a stack.
"""

import sys
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from structlog.contextvars import get_contextvars

from lakeui.catalog.access import admins
from lakeui.pages.access.sign_in import find_page

_NAMED = 5
_SOON = {"Retry-After": "5"}
_DJANGOS = "matches the given query"  # of get_object_or_404: it names a model, not a reason


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not hasattr(request, "user"):  # refused before authentication, as for a foreign host
        return HttpResponse("The request is not valid.\n", "text/plain", 400)
    return render(request, "400.html", {"reason": _view_message(exception)}, status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Render the refusal, with the people who could grant the role for signed-in readers."""
    context: dict[str, Any] = {"reason": _view_message(exception)}
    if request.user.is_authenticated:
        names = list(admins().values_list("username", flat=True)[: _NAMED + 1])
        context |= {"grantors": names[:_NAMED], "are_more": len(names) > _NAMED}
    return render(request, "403.html", context, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Lead back to the page, such as after a sign-in in another tab; `static/keys.js` keeps the input."""
    page = find_page(request)
    if page and request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": page})
    context = {"is_stale_form": True, "detail": reason, "page": page}
    return render(request, "403.html", context, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", {"reason": _view_message(exception)}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Render without the frame, which needs the database that may have failed.

    An unreachable database, which Django's handler detects here, is 503 and asks for another try.
    """
    is_away = isinstance(sys.exc_info()[1], (OperationalError, InterfaceError))
    context = {
        "database_is_away": is_away,
        "request_id": get_contextvars().get("request_id", ""),
        "at": datetime.now(UTC),
        "again": request.get_full_path() if request.method == "GET" else "",
    }
    text = render_to_string("500.html", context)
    return (
        HttpResponse(text, status=503, headers=_SOON) if is_away else HttpResponse(text, status=500)
    )


def _view_message(exception: Exception) -> str:
    """Return a view's message; Django's own arguments are for machines."""
    first: Any = exception.args[0] if exception.args else ""
    return first if isinstance(first, str) and _DJANGOS not in first else ""


def refuse_when_read_only() -> None:
    """Raise PermissionDenied while READ_ONLY is set."""
    if settings.READ_ONLY:
        msg = "This installation is read-only: nothing was changed."
        raise PermissionDenied(msg)
