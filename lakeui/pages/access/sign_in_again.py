"""Lead a page with an expired session to the sign-in page, and back."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.utils.http import url_has_allowed_host_and_scheme


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
        header = "HX-Current-URL" if is_fragment else "Referer"
        address = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': _page(request, header)})}"
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


def _page(request: HttpRequest, header: str) -> str:
    """Return the path and query of the page in a header, if it is one of this site."""
    address = request.headers.get(header, "")
    if not url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}):
        return request.path
    parts = urlsplit(address)
    return parts.path + (f"?{parts.query}" if parts.query else "")
