"""Workers, queues, the mirror and what is wrong now."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.catalog.access import visible_tables
from lakeui.monitoring.alerts import current_alerts
from lakeui.monitoring.health import readiness
from lakeui.monitoring.operations import queues, workers

_LAGGING_SHOWN = 10


@login_required
def monitoring(request: HttpRequest) -> HttpResponse:
    """What takes an answer from elsewhere comes as a fragment, so that the page never waits for it."""
    if request.htmx or request.GET.get("ask") == "workers":  # type: ignore[attr-defined]
        answers = {"workers": workers(), "parts": readiness(), "asked": True}
    else:
        answers = {"asked": False}
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return render(request, "monitoring/_answers.html", answers)
    tables = visible_tables(request.user)
    context = answers | {
        "alerts": current_alerts(request.user),
        "queues": queues(),
        "lagging": tables.filter(mirrored_at__isnull=False).order_by("mirrored_at")[
            :_LAGGING_SHOWN
        ],
        "unread": tables.filter(mirrored_at__isnull=True).count(),
        "twin": "/api/v1/health/",
    }
    return render(request, "monitoring/monitoring.html", context)
