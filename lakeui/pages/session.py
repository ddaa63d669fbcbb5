"""Signing in by password. The one-time link that a start prints belongs to the local stack."""

import hashlib
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

TRIES = 5
PAUSE = timedelta(minutes=5)
_STARTED_AT = timezone.now()
_TOO_MANY = 429


class SignInForm(AuthenticationForm):
    """Django's own, with a mark on the fields that did not match."""

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound and self.errors:
            for name in ("username", "password"):
                self.fields[name].widget.attrs["aria-invalid"] = "true"


class SignInView(LoginView):
    """After a few tries that did not match, a name has a pause from where it was tried."""

    template_name = "session/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ANN401
        tried = _Tries(request)
        if tried.paused_until is None:
            return super().post(request, *args, **kwargs)
        form = self.get_form_class()(request)
        context = self.get_context_data(form=form, paused_until=tried.paused_until)
        return self.render_to_response(context, status=_TOO_MANY)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        left = _Tries(self.request).count_one()
        context = self.get_context_data(form=form, tries_left=left, pause=PAUSE)
        return self.render_to_response(context, status=400)

    def form_valid(self, form: AuthenticationForm) -> HttpResponseBase:  # type: ignore[override]
        _Tries(self.request).forget()
        return super().form_valid(form)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        about = {
            "installation": settings.INSTALLATION_NAME,
            "version": _version(),
            "read_only": settings.READ_ONLY,
            "started_at": _STARTED_AT,
        }
        return super().get_context_data(**kwargs) | about | kwargs


class _Tries:
    """How often a name was tried in vain from one address lately; kept in the cache."""

    def __init__(self, request: HttpRequest) -> None:
        name = request.POST.get("username", "").strip().lower()
        origin = f"{name}\0{request.META.get('REMOTE_ADDR', '')}"
        self._key = f"lakeui.sign-in.{hashlib.sha256(origin.encode()).hexdigest()}"

    @property
    def paused_until(self) -> datetime | None:
        count, until = cache.get(self._key, (0, 0))
        return datetime.fromtimestamp(until, UTC) if count >= TRIES else None

    def count_one(self) -> int:
        """One more; how many are left before the pause."""
        count = int(cache.get(self._key, (0, 0))[0]) + 1
        until = (timezone.now() + PAUSE).timestamp()
        cache.set(self._key, (count, until), PAUSE.total_seconds())
        return max(TRIES - count, 0)

    def forget(self) -> None:
        cache.delete(self._key)


def _version() -> str:
    try:
        return version("lakeui")
    except PackageNotFoundError:
        return ""
