"""The page for whoever was not let in, and the record of it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.monitoring.audit import record_failed_sign_in
from lakeui.sign_on.errors import SignOnError


def refused(request: HttpRequest, error: SignOnError) -> HttpResponse:
    """What happened and what to do about it."""
    record_failed_sign_in(error.name, error.code)
    return render(request, "access/refused.html", {"error": error}, status=error.status)
