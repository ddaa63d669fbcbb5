"""The one page of the embedded stack: the link that it prints."""

from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from lakeui.local_stack.login_links import redeem
from lakeui.monitoring.audit import record_session

_BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@require_GET
def login_link(request: HttpRequest, token: str) -> HttpResponse:
    user = redeem(token)
    if user is None:
        messages.error(
            request, "This link was used or is too old: run manage.py login_link for a new one."
        )
        return redirect("login")
    login(request, user, backend=_BACKEND)
    record_session(user, "signed in by a link")
    return redirect("overview")
