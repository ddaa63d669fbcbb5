"""Signed-in browsers: one's own, and for admins everybody's, with everybody's tokens."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from lakeui.catalog.access import may
from lakeui.sign_on.models import BrowserSession
from lakeui.sign_on.sessions import end, endable_sessions
from lakeui.sign_on.tokens import revocable_tokens

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
