"""Workers by their reports: cheap enough for every page."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from lakeui.jobs.models import WorkerReport

MISSED = 4  # reports that may fail to come


@dataclass(frozen=True, slots=True)
class Workers:
    """`here` of `known` reported lately; workers that shut down are no longer known."""

    here: int
    known: int


def worker_count() -> Workers:
    """Count the workers in one small query."""
    silent = timedelta(seconds=MISSED * settings.WORKER_REPORT_SECONDS)
    lately = Q(seen_at__gte=timezone.now() - silent)
    counts = WorkerReport.objects.aggregate(here=Count("pk", lately), known=Count("pk"))
    return Workers(**counts)
