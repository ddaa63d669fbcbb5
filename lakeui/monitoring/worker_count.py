"""Workers by what they said of themselves: cheap enough to stand on every page."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, Q
from django.utils import timezone

from lakeui.jobs.models import WorkerReport

_KEY = "lakeui.monitoring.worker_count"
_KEPT_S = 5
MISSED = 4  # reports that may fail to come


@dataclass(frozen=True, slots=True)
class Workers:
    """`here` of `known` reported lately; those that ended in order are no longer known."""

    here: int
    known: int


def worker_count() -> Workers:
    """Asked of the database at most every few seconds."""
    counted: Workers | None = cache.get(_KEY)
    if counted is None:
        counted = _count()
        cache.set(_KEY, counted, _KEPT_S)
    return counted


def _count() -> Workers:
    silent = timedelta(seconds=MISSED * settings.WORKER_REPORT_SECONDS)
    lately = Q(seen_at__gte=timezone.now() - silent)
    found = WorkerReport.objects.aggregate(here=Count("pk", lately), known=Count("pk"))
    return Workers(**found)
