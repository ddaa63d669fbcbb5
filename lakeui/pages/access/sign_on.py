"""Signing in at an OpenID provider: there, and back again."""

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from lakeui.sign_on import openid, sessions
from lakeui.sign_on.configuration import is_openid_enabled
from lakeui.sign_on.errors import SignOnError
from lakeui.sign_on.models import Way
from lakeui.sign_on.people import account_of
from lakeui.sign_on.refusals import render_refusal

_NEXT = "sign_on_next"
END = "sign_on_end"


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
        msg = "No OpenID provider is set up here."
        raise Http404(msg)
