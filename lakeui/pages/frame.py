"""The frame of every page. The database is queried only when it is drawn."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.conf import settings
from django.db.models import Max
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from lakeui.catalog.access import may, role_of, visible_tables
from lakeui.catalog.hours import RANGES
from lakeui.catalog.models import Table
from lakeui.catalog.roles import Role
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.monitoring.worker_state import Workers, worker_count
from lakeui.pages.access.account import read_watched_ids, theme_of, zone_of
from lakeui.pages.listing import range_query


@dataclass(frozen=True, slots=True)
class SidebarEntry:
    """A line of the sidebar; `has_range`: its panels show the range in the address."""

    name: str
    address: str
    icon: str
    label: str
    has_range: bool = False


class Frame:
    """Sidebar, top bar and the reader's preferences."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.theme = theme_of(request)
        self.read_only = settings.READ_ONLY
        self.installation = settings.INSTALLATION_NAME

    @property
    def ranges(self) -> tuple[str, ...]:
        """The names of the ranges that pages offer."""
        return tuple(RANGES)

    @property
    def range_query(self) -> str:
        """The query that keeps the range of this page on the next one; empty if it names none."""
        return range_query(self._request)

    @cached_property
    def zone_name(self) -> str:
        return zone_of(self._request).key

    @cached_property
    def zone_label(self) -> str:
        """The current abbreviation of the zone: UTC, CET."""
        return timezone.localtime().tzname() or self.zone_name

    @cached_property
    def role(self) -> Role | None:
        return role_of(self._request.user)

    @cached_property
    def table_count(self) -> int:
        return visible_tables(self._request.user).count()

    @cached_property
    def conflict_count(self) -> int:
        """Conflicts of the last 24 hours with wasted work."""
        day_ago = timezone.now() - timedelta(hours=24)
        return (
            visible_conflicts(self._request.user)
            .filter(occurred_at__gte=day_ago, kind__in=Conflict.ABORTED_KINDS)
            .count()
        )

    @cached_property
    def job_count(self) -> int:
        return visible_jobs(self._request.user).filter(state__in=Job.ACTIVE).count()

    @cached_property
    def watched(self) -> list[Table]:
        ids = read_watched_ids(self._request)
        if not ids:
            return []
        tables = visible_tables(self._request.user).in_bulk(ids)
        return [tables[pk] for pk in ids if pk in tables]

    @cached_property
    def mirrored_at(self) -> datetime | None:
        """When the mirror last read any log."""
        tables = visible_tables(self._request.user).order_by()
        newest: datetime | None = tables.aggregate(at=Max("mirrored_at"))["at"]
        return newest

    @cached_property
    def workers(self) -> Workers:
        """Workers with a recent report, of those with one within a day."""
        return worker_count()

    @cached_property
    def extras(self) -> tuple[SidebarEntry, ...]:
        """Pages after the four for daily use."""
        entries = (
            SidebarEntry(
                "schedule-list", reverse("schedule-list"), "clock", "Schedules", has_range=True
            ),
            SidebarEntry("explain", reverse("explain"), "term", "Explain an error"),
            SidebarEntry(
                "monitoring", reverse("monitoring"), "pulse", "Monitoring", has_range=True
            ),
        )
        trail = SidebarEntry("audit", reverse("audit"), "eye", "Audit log")
        return (*entries, trail) if may(self._request.user, "maintain") else entries

    @cached_property
    def origin(self) -> str:
        return self._request.build_absolute_uri("/").rstrip("/")


def frame(request: HttpRequest) -> dict[str, Frame]:
    return {"frame": Frame(request)}
