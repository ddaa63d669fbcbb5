"""Pages for what went wrong. They say what happened and the next step, never a stack."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from structlog.contextvars import get_contextvars

_DJANGOS = "matches the given query"  # of get_object_or_404: it names a model, not a reason


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not hasattr(request, "user"):  # refused before anyone asked who it is: a foreign host, say
        return HttpResponse("That request cannot be read.\n", "text/plain", 400)
    return render(request, "400.html", {"reason": _said(exception)}, status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "403.html", {"reason": _said(exception)}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return render(request, "403.html", {"is_stale_form": True, "detail": reason}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", {"reason": _said(exception)}, status=404)


def server_error(_request: HttpRequest) -> HttpResponse:
    """Drawn without the frame, which asks the database that may be what failed."""
    context = {"request_id": get_contextvars().get("request_id", "")}
    return HttpResponse(render_to_string("500.html", context), status=500)


def _said(exception: Exception) -> str:
    """What a view said of it; Django's own arguments are for machines."""
    first: Any = exception.args[0] if exception.args else ""
    return first if isinstance(first, str) and _DJANGOS not in first else ""
