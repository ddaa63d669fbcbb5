"""One's own account: signed-in browsers, tokens for the REST API, and preferences.

Admins also see everybody's browsers and tokens. A token is made and shown once. Preferences (theme,
zone, watched tables, hidden first steps) are cookies of a browser.
"""

import zoneinfo
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST
from knox.models import get_token_model

from lakeui.catalog.access import highest_role, may
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.roles import Role
from lakeui.sign_on.models import BrowserSession
from lakeui.sign_on.sessions import end, endable_sessions
from lakeui.sign_on.tokens import revocable_tokens, tokens_of

THEMES = ("light", "system", "dark")
MAX_WATCHED = 12
_YEAR_SECONDS = 365 * 86_400

MAX_DAYS = 365
SOON_DAYS = 7
MAY_DO = (
    (Role.REPORTER, "Reports transactions of programs. Cannot read anything."),
    (Role.VIEWER, "Reads tables, jobs and conflicts, and explains errors."),
    (Role.OPERATOR, "Runs jobs that write rows, cancels and retries them, and reports conflicts."),
    (
        Role.MAINTAINER,
        "Creates, registers, alters, compacts and vacuums tables, and reads the audit log.",
    ),
    (Role.ADMIN, "Restores tables, shortens their retention, and grants roles."),
)

_MOST = 200


@never_cache
@login_required
def session_list(request: HttpRequest) -> HttpResponse:
    """Show the sessions that the reader may end; the address names one to be confirmed."""
    user: User = request.user  # type: ignore[assignment]  # signed in
    sessions, tokens = endable_sessions(user), revocable_tokens(user)
    context: dict[str, Any] = {
        "sessions": sessions.filter(user=user),
        "current": request.session.session_key,
        "to_end": _find_row(sessions, request.GET.get("end", "")),
        "twin": "/api/v1/sessions/",
    }
    if may(user, "admin"):
        others = tokens.exclude(user=user).select_related("user")
        context |= {
            "is_admin": True,
            "others": sessions.exclude(user=user)[:_MOST],
            "tokens": others.order_by("user__username", "-created")[:_MOST],
            "to_revoke": _find_row(others, request.GET.get("revoke", "")),
            "now": timezone.now(),
            "most": _MOST,
        }
    return render(request, "access/sessions.html", context)


@require_POST
@login_required
def session_end(request: HttpRequest, public_id: UUID) -> HttpResponse:
    user: User = request.user  # type: ignore[assignment]  # signed in
    session: BrowserSession = get_object_or_404(endable_sessions(user), public_id=public_id)
    end(session, user)
    messages.success(request, f"A session of {session.user.username} has ended.")
    return redirect("session-list")


def _find_row(rows: QuerySet[Any], text: str) -> Any:  # noqa: ANN401 - a session or a token
    """Return the row of an id, None if the address names none of these."""
    try:
        return rows.filter(public_id=UUID(text)).first()
    except ValueError:
        return None


class TokenForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=100,
        help_text="The program that will use the token: nightly-pipeline.",
    )
    role = forms.TypedChoiceField(
        label="Role",
        coerce=int,
        help_text="The highest right of the token. It never exceeds your own rights.",
    )
    expires_in_days = forms.IntegerField(
        label="Expires after days", min_value=1, max_value=MAX_DAYS, initial=30
    )

    def __init__(self, data: Any, own: Role) -> None:  # noqa: ANN401 - a form's data
        super().__init__(data)
        self.fields["role"].choices = [  # type: ignore[attr-defined]
            (role.value, role.label) for role in Role if role <= own
        ]


@never_cache
@login_required
@sensitive_variables("secret")
def token_list(request: HttpRequest) -> HttpResponse:
    """Show the page; a POST creates a token, and only its answer shows the secret."""
    own = highest_role(request.user)
    form = TokenForm(request.POST or None, own) if own is not None else None
    secret, reports = "", False
    if request.method == "POST":
        if form is None:
            msg = "A token needs a role, on all tables or on one."
            raise PermissionDenied(msg)
        if form.is_valid():
            secret = _create_token(request, form.cleaned_data)
            reports = form.cleaned_data["role"] == Role.REPORTER
            form = TokenForm(None, own)  # type: ignore[arg-type]  # there was a form
    context = {
        "tokens": _tokens_of(request).order_by("-created"),
        "form": form,
        "secret": secret,
        "reports": reports,
        "to_revoke": _find_token(request),
        "now": timezone.now(),
        "soon": timezone.now() + timedelta(days=SOON_DAYS),
        "may_do": MAY_DO,
        "twin": "/api/v1/tokens/",
    }
    status = 400 if form is not None and form.errors else 200
    return render(request, "access/tokens.html", context, status=status)


@require_POST
@login_required
def token_revoke(request: HttpRequest, public_id: UUID) -> HttpResponse:
    user: User = request.user  # type: ignore[assignment]  # signed in
    token = get_object_or_404(revocable_tokens(user), public_id=public_id)
    token.delete()
    messages.success(request, f"{token.name} is revoked. Requests with it are refused from now on.")
    return redirect("token-list" if token.user_id == user.pk else "session-list")


def _create_token(request: HttpRequest, values: dict[str, Any]) -> str:
    """Create a token and return its secret; delete expired tokens."""
    _tokens_of(request).filter(expiry__lt=timezone.now()).delete()
    _, secret = get_token_model().objects.create(
        user=request.user,
        expiry=timedelta(days=values["expires_in_days"]),
        name=values["name"],
        role=values["role"],
    )
    return str(secret)


def _find_token(request: HttpRequest) -> Any:  # noqa: ANN401 - knox leaves its model open
    """Return the token in the address to revoke, None if it is not one of the person's tokens."""
    try:
        public_id = UUID(request.GET.get("revoke", ""))
    except ValueError:
        return None
    return _tokens_of(request).filter(public_id=public_id).first()


def _tokens_of(request: HttpRequest) -> QuerySet[Any]:
    return tokens_of(request.user)  # type: ignore[arg-type]  # signed in


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
    return [int(text) for text in texts if is_row_id(text)][:MAX_WATCHED]


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
    if not is_row_id(text):
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
