"""Addresses for monitoring by machines."""

from hmac import compare_digest

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from lakeui.catalog.access import role_of
from lakeui.monitoring.health import readiness
from lakeui.monitoring.metrics import exposition


@require_safe
@never_cache
def livez(_request: HttpRequest) -> HttpResponse:
    """Answer without any check: the process lives."""
    return HttpResponse("ok\n", "text/plain")


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """Return 200 if the database, its migrations and the broker are there; else 503."""
    checks = readiness()
    ready = all(check.ok for check in checks)
    body = {
        "ready": ready,
        "checks": {check.name: "ok" if check.ok else check.remedy for check in checks},
    }
    return JsonResponse(body, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format. It names tables, so it is not for everybody: see `_may_scrape`."""
    if not _may_scrape(request):
        refused = HttpResponse("A token is needed: see docs/monitoring.\n", "text/plain", 401)
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused
    return HttpResponse(exposition(), CONTENT_TYPE_LATEST)


def _may_scrape(request: HttpRequest) -> bool:
    """Whether the caller has METRICS_TOKEN or a role on all tables, or METRICS_OPEN is set."""
    if settings.METRICS_OPEN:
        return True
    given = request.headers.get("Authorization", "")
    expected = f"Bearer {settings.METRICS_TOKEN}"
    if settings.METRICS_TOKEN and compare_digest(given.encode(), expected.encode()):
        return True
    user: User | AnonymousUser = request.user
    return role_of(user) is not None
