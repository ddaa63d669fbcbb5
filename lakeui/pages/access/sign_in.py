"""Signing in, by password or at an OpenID provider, and out again.

Passwords serve the pages and the admin alike; the printed one-time link belongs to the local stack.
A page whose session expired leads to the sign-in page, and back.
"""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.forms import AdminPasswordChangeForm
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView, redirect_to_login
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from lakeui.monitoring.audit import record_failed_sign_in, record_session
from lakeui.monitoring.password_tries import PAUSE, PasswordTries
from lakeui.sign_on import openid, sessions
from lakeui.sign_on.configuration import is_openid_enabled, issuer_name
from lakeui.sign_on.errors import SignOnError, render_refusal
from lakeui.sign_on.models import Way
from lakeui.sign_on.people import account_of
from lakeui.sign_on.sessions import note

_STARTED_AT = timezone.now()
_TOO_MANY = 429

_NEXT = "sign_on_next"
END = "sign_on_end"


class SignInForm(AuthenticationForm):
    """Django's form, with a mark on mismatched fields."""

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound and self.errors:
            for name in ("username", "password"):
                self.fields[name].widget.attrs["aria-invalid"] = "true"


class SignInView(LoginView):
    """Django's view, with a pause after failed tries: per name and address, or per address."""

    template_name = "access/session.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True
    tries: PasswordTries
    address_tries: PasswordTries | None
    tries_left: int

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ANN401
        if not settings.LOCAL_ACCOUNTS:
            msg = "Password sign-in is disabled here."
            raise PermissionDenied(msg)
        name = request.POST.get("username", "")
        self.tries = PasswordTries.from_request(request, name)
        self.address_tries = PasswordTries.from_address(request)
        self.tries_left = self.tries.take()
        if self.tries_left < 0:
            return self._refuse(name, self.tries, is_first=self.tries_left == -1)
        if self.address_tries is not None and (left := self.address_tries.take()) < 0:
            self.tries.give_back()
            return self._refuse(name, self.address_tries, is_first=left == -1)
        return super().post(request, *args, **kwargs)

    def _refuse(self, name: str, tries: PasswordTries, *, is_first: bool) -> HttpResponse:
        """Answer without comparing the password; the audit log has it once a pause."""
        if is_first:
            record_failed_sign_in(name, "TOO_MANY_TRIES")
        form = self.get_form_class()(self.request)
        context = self.get_context_data(form=form, paused_until=tries.paused_until)
        return self.render_to_response(context, status=_TOO_MANY)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        record_failed_sign_in(self.request.POST.get("username", ""), "SIGN_IN_FAILED")
        context = self.get_context_data(form=form, tries_left=self.tries_left, pause=PAUSE)
        return self.render_to_response(context, status=400)

    def form_valid(self, form: AuthenticationForm) -> HttpResponseBase:  # type: ignore[override]
        self.tries.forget()
        if self.address_tries is not None:
            self.address_tries.give_back()
        response = super().form_valid(form)
        note(self.request, form.get_user(), Way.PASSWORD)
        return response

    def get_redirect_url(self) -> str:  # type: ignore[override]  # a request is of Django 6
        """Return the next page; never this one, which would redirect for ever."""
        target = super().get_redirect_url()
        return "" if target.partition("?")[0] == self.request.path else target

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        about = {
            "installation": settings.INSTALLATION_NAME,
            "local_accounts": settings.LOCAL_ACCOUNTS,
            "provider": issuer_name() if is_openid_enabled() else "",
            "version": _version(),
            "read_only": settings.READ_ONLY,
            "started_at": _STARTED_AT,
        }
        return super().get_context_data(**kwargs) | about | kwargs


class SignOutView(LogoutView):
    """Django's view, recorded in the audit log. It leads on to the provider of the sign-in."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if isinstance(request.user, User):
            record_session(request.user, "signed out")
        address = end_address(request)
        response = super().post(request, *args, **kwargs)
        if not address:
            return response
        context = {"end_address": address, "provider": issuer_name()}
        return render(request, "access/signed_out.html", context)


@never_cache
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the sign-in page: the admin has none, and a password sent here is not checked."""
    if request.user.is_authenticated and not admin.site.has_permission(request):
        msg = "Only staff can use the admin. A staff member can give you this status there."
        raise PermissionDenied(msg)
    target = request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index")
    return redirect_to_login(target, reverse("login"))


class OldPasswordForm(AdminPasswordChangeForm):
    """The old password cannot be guessed in a session left open either."""

    def clean_old_password(self) -> str:
        tries = PasswordTries("old password", self.user.pk)
        if tries.take() < 0:
            msg = (
                "Too many attempts. Passwords are not checked until "
                f"{tries.paused_until:%H:%M:%S} UTC."
            )
            raise ValidationError(msg, "too_many_tries")
        old: str = super().clean_old_password()
        tries.forget()
        return old


class PasswordView(PasswordChangeView):
    """The admin's page for changing one's password."""

    form_class = OldPasswordForm
    template_name = "registration/password_change_form.html"

    def get_success_url(self) -> str:
        return reverse("admin:password_change_done")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        return super().get_context_data(**kwargs) | admin.site.each_context(self.request)


def admin_password(request: HttpRequest) -> HttpResponseBase:
    view = admin.site.admin_view(PasswordView.as_view(), cacheable=True)
    return view(request)


def _version() -> str:
    try:
        return version("lakeui")
    except PackageNotFoundError:
        return ""


@never_cache
@require_GET
def sign_on(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. The answer's target is kept in this browser's session."""
    _require_provider()
    request.session[_NEXT] = request.GET.get(REDIRECT_FIELD_NAME, "")
    try:
        return openid.begin(request, request.build_absolute_uri(reverse("sign-on-callback")))
    except SignOnError as error:
        return render_refusal(request, error)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Finish the sign-in at the provider: signed in, or a page with the reason."""
    _require_provider()
    target = str(request.session.get(_NEXT, ""))
    try:
        answer = openid.finish(request)
        user = account_of(answer.identity)
    except SignOnError as error:
        return render_refusal(request, error)
    sessions.begin(request, user, Way.OPENID)
    if answer.end_session_endpoint:
        request.session[END] = [answer.end_session_endpoint, answer.id_token]
    hosts = {request.get_host()}
    is_ours = url_has_allowed_host_and_scheme(target, hosts, request.is_secure())
    return redirect(target if is_ours else settings.LOGIN_REDIRECT_URL)


def end_address(request: HttpRequest) -> str:
    """Return the provider's sign-out address for this browser, "" if there is none."""
    hints = request.session.get(END)
    if not hints:
        return ""
    endpoint, id_token = hints
    return openid.end_address(endpoint, id_token, request.build_absolute_uri(reverse("login")))


def _require_provider() -> None:
    if not is_openid_enabled():
        msg = "No OpenID provider is configured here."
        raise Http404(msg)


class SignInAgainMiddleware:
    """Redirect the whole page to sign-in if a request needs a signed-in person.

    An htmx fragment would show the sign-in page inside the page, and a submitted form would lead
    back to an address without its query. Both come back to the page itself; `static/keys.js` keeps
    the typed text.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        is_fragment = bool(request.headers.get("HX-Request"))
        is_asked_here = is_fragment or request.method == "POST"
        if not (is_asked_here and _needs_sign_in(request, response)):
            return response
        page = find_page(request) or request.path
        address = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': page})}"
        if not is_fragment:
            response["Location"] = address
            return response
        return HttpResponse(status=204, headers={"HX-Redirect": address})


def _needs_sign_in(request: HttpRequest, response: HttpResponse) -> bool:
    """Return whether a view refused the request for want of a signed-in person."""
    place = urlsplit(response.get("Location", ""))
    if response.status_code != 302 or place.path != resolve_url(settings.LOGIN_URL):
        return False
    following = parse_qs(place.query).get("next", [""])[0]
    return urlsplit(following).path == request.path


def find_page(request: HttpRequest) -> str:
    """Return the path and query of the page that sent a form; "" if it is not a page of this site."""
    header = "HX-Current-URL" if request.headers.get("HX-Request") else "Referer"
    address = request.headers.get(header, "")
    if not url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}):
        return ""
    parts = urlsplit(address)
    return parts.path + (f"?{parts.query}" if parts.query else "")
