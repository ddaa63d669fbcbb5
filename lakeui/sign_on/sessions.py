"""Signed-in browsers: recorded, listed, signed out.

Sessions begun without a password continue if local accounts are disabled.
"""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth import SESSION_KEY, login
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from lakeui.catalog.access import may
from lakeui.monitoring.audit import record_session
from lakeui.monitoring.client_address import client_address
from lakeui.sign_on.models import BrowserSession, Way

WITHOUT_PASSWORD = "lakeui.sign_on.sessions.WithoutPassword"  # noqa: S105 - a class's name

WAY = "sign_on_way"
_MAX_BROWSER = 200


def begin(request: HttpRequest, user: User, way: Way) -> None:
    """Sign a person in who needs no password, and put it on record."""
    login(request, user, backend=WITHOUT_PASSWORD)
    if way in (Way.OPENID, Way.PROXY):
        request.session.set_expiry(timedelta(hours=settings.SIGN_ON_SESSION_HOURS))
    note(request, user, way)


def note(request: HttpRequest, user: User, way: Way) -> None:
    """Record a new session in the audit log and in the list of sessions."""
    record_session(user, f"signed in by {way.label}")
    request.session[WAY] = way.value
    request.session.save()  # it has a key from now on
    live = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    BrowserSession.objects.filter(user=user).exclude(session_key__in=live).delete()
    BrowserSession.objects.update_or_create(
        session_key=request.session.session_key,
        defaults={
            "user": user,
            "way": way,
            "address": client_address(request) or "",
            "browser": request.headers.get("User-Agent", "")[:_MAX_BROWSER],
            "started_at": timezone.now(),
            "expires_at": request.session.get_expiry_date(),
        },
    )


def live_sessions() -> QuerySet[BrowserSession]:
    """Return the valid sessions, the newest first."""
    now = timezone.now()
    keys = Session.objects.filter(expire_date__gt=now).values("session_key")
    return BrowserSession.objects.filter(session_key__in=keys).select_related("user")


def end(session: BrowserSession, by: User) -> None:
    """Sign a browser out: its next request is anonymous."""
    Session.objects.filter(session_key=session.session_key).delete()
    session.delete()
    record_session(session.user, "session ended", by)


def end_all(user: User) -> int:
    """Sign a person out everywhere, also of sessions that are not listed."""
    mine = [
        session.session_key
        for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator()
        if session.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    Session.objects.filter(session_key__in=mine).delete()
    BrowserSession.objects.filter(user=user).delete()
    record_session(user, "every session ended")
    return len(mine)


def endable_sessions(user: User) -> QuerySet[BrowserSession]:
    """Return the sessions that a person may end: their own, or everybody's for an administrator."""
    return live_sessions() if may(user, "admin") else live_sessions().filter(user=user)


class WithoutPassword(ModelBackend):
    """Knows people and their permissions, and compares no password."""

    def authenticate(self, request: HttpRequest | None, **credentials: object) -> None:  # type: ignore[override]
        del request, credentials
