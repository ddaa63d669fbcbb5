"""Links to Spark's own pages of an application, for people who may use them.

Spark's pages have no authentication: they show the plans of every table's jobs, with conditions and
locations, to everybody who reaches them. So only admins of all tables get a link.
"""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.utils import timezone

from lakeui.catalog.access import Person, may
from lakeui.jobs.models import WorkerReport
from lakeui.monitoring.worker_count import MISSED

APPLICATION = "{application}"


@dataclass(frozen=True, slots=True)
class SparkPages:
    """Spark's pages of one application, below `root`."""

    root: str

    @property
    def jobs(self) -> str:
        """The page of its jobs."""
        return f"{self.root}/jobs/"

    def stage(self, stage_id: int, attempt: int) -> str:
        """Return the page of one stage with its tasks."""
        return f"{self.root}/stages/stage/?id={stage_id}&attempt={attempt}"


def spark_pages(user: Person, application: str) -> SparkPages | None:
    """Return Spark's pages of an application; None without any, or if this person gets no link.

    `SPARK_UI_URL` names a history server or a proxy. Without it they are the worker's own, while
    its Spark runs.
    """
    if not application or not may(user, "admin"):
        return None
    if settings.SPARK_UI_URL:
        return _pages(settings.SPARK_UI_URL.replace(APPLICATION, quote(application, safe="")))
    lately = timezone.now() - timedelta(seconds=MISSED * settings.WORKER_REPORT_SECONDS)
    reports = WorkerReport.objects.filter(spark_application=application, seen_at__gte=lately)
    return _pages(reports.values_list("spark_ui", flat=True).first() or "")


def spark_pages_of(user: Person, report: WorkerReport) -> SparkPages | None:
    """Return Spark's pages of a live worker."""
    if settings.SPARK_UI_URL or not report.spark_ui:
        return spark_pages(user, report.spark_application) if settings.SPARK_UI_URL else None
    return _pages(report.spark_ui) if may(user, "admin") else None


def _pages(address: str) -> SparkPages | None:
    """Below an address, if a browser may be led there: by http or https, to a host."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return SparkPages(address.rstrip("/"))
