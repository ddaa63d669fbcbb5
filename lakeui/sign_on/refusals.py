"""The page of a refused sign-in, and its record."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.monitoring.audit import record_refused_sign_on
from lakeui.monitoring.client_address import client_address
from lakeui.sign_on.errors import SignOnError


def render_refusal(request: HttpRequest, error: SignOnError) -> HttpResponse:
    """Render the reason and the remedy."""
    record_refused_sign_on(error.name, error.code, client_address(request))
    return render(request, "access/refused.html", {"error": error}, status=error.status)
