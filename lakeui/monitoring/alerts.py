"""What needs somebody's attention now, on the tables that the reader may see.

The same conditions are in docs/monitoring/alerts.yml, for Prometheus to watch over time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Q
from django.utils import timezone

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.filters import count_by_table
from lakeui.catalog.health import Health, annotate_health
from lakeui.conflicts.models import Conflict
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.monitoring.operations import stale_jobs

MAX_MIRROR_LAG = timedelta(minutes=15)
MAX_WAIT = timedelta(minutes=10)
MANY_TABLES = 20  # more than these lag for one reason: one alert tells of all
MANY_CONFLICTS = 10  # aborted writes on one table within the hour


class Severity(StrEnum):
    """How soon."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that is wrong, and what to do. `table_id` and `job_id` say where, if anywhere."""

    code: str
    severity: Severity
    title: str
    remedy: str
    table_id: int | None = None
    job_id: str | None = None
    since: datetime | None = None


def current_alerts(user: Person) -> list[Alert]:
    """The alerts a person may see, critical ones first."""
    now = timezone.now()
    alerts = [
        *_iter_table_alerts(user, now),
        *_iter_job_alerts(user, now),
        *_iter_conflict_alerts(user, now),
    ]
    return sorted(alerts, key=lambda alert: (alert.severity != Severity.CRITICAL, alert.code))


def _iter_table_alerts(user: Person, now: datetime) -> Iterator[Alert]:
    for table in annotate_health(visible_tables(user)).filter(health=Health.UNREACHABLE):
        yield Alert(
            code="TABLE_UNREACHABLE",
            severity=Severity.CRITICAL,
            title=f"The log of {table.name} cannot be read ({table.mirror_error_code}).",
            remedy="Open the table to see the error, then check the storage and its credentials.",
            table_id=table.pk,
            since=table.mirror_failed_at,
        )
    lagging = visible_tables(user).filter(mirrored_at__lt=now - MAX_MIRROR_LAG)
    late = list(lagging.order_by("mirrored_at")[: MANY_TABLES + 1])
    if len(late) > MANY_TABLES:
        yield Alert(
            code="MIRROR_LAGS",
            severity=Severity.WARNING,
            title=f"{lagging.count():,} tables were last mirrored over "
            f"{_ago(now, now - MAX_MIRROR_LAG)} ago.",
            remedy="Check that a light worker and the beat run.",
            since=late[0].mirrored_at,
        )
        return
    for table in late:
        yield Alert(
            code="MIRROR_LAGS",
            severity=Severity.WARNING,
            title=f"{table.name} was last mirrored {_ago(now, table.mirrored_at)} ago.",
            remedy="Check that a light worker and the beat run.",
            table_id=table.pk,
            since=table.mirrored_at,
        )


def _iter_job_alerts(user: Person, now: datetime) -> Iterator[Alert]:
    jobs = visible_jobs(user).select_related("table")
    silent = jobs.filter(pk__in=stale_jobs().values("pk")).order_by("heartbeat_at")
    for job in silent.defer("plan", "metrics", "error_facts"):
        yield Alert(
            code="WORKER_LOST",
            severity=Severity.WARNING,
            title=f"The worker of a {job.kind} on {job.table.name} is silent.",
            remedy="The sweeper gives the job to another worker; check that a light worker runs.",
            table_id=job.table_id,
            job_id=str(job.pk),
            since=job.heartbeat_at,
        )
    waiting = list(  # few, and found by their state: in order of time the database walks all jobs
        jobs.filter(state=Job.State.QUEUED, finished_at=None, created_at__lt=now - MAX_WAIT)
        .order_by()
        .values_list("created_at", "pk")
    )
    if waiting:
        asked_at, oldest = min(waiting)
        yield Alert(
            code="JOBS_WAIT",
            severity=Severity.CRITICAL,
            title=f"{len(waiting)} jobs wait, the oldest for {_ago(now, asked_at)}.",
            remedy="Check that the broker and a worker of their queue run, or add workers.",
            job_id=str(oldest),
            since=asked_at,
        )
    unknown = Q(error_code="LAKE_COMMIT_OUTCOME_UNKNOWN", finished_at__gte=now - timedelta(days=7))
    failed = jobs.filter(unknown, state=Job.State.FAILED, reruns__isnull=True)
    for job in failed.order_by().defer("plan", "metrics", "error_facts"):
        yield Alert(
            code="OUTCOME_UNKNOWN",
            severity=Severity.CRITICAL,
            title=f"Whether a {job.kind} on {job.table.name} was committed is not known.",
            remedy="Check the table's history, then retry the job: it finds its own commit.",
            table_id=job.table_id,
            job_id=str(job.pk),
            since=job.finished_at,
        )


def _iter_conflict_alerts(user: Person, now: datetime) -> Iterator[Alert]:
    recent = Conflict.objects.filter(
        kind=Conflict.Kind.ABORTED, occurred_at__gte=now - timedelta(hours=1)
    )
    counted = count_by_table(recent.order_by())
    aborted = {pk: n for pk, n in counted.items() if n >= MANY_CONFLICTS}
    for table in visible_tables(user).filter(pk__in=aborted):
        yield Alert(
            code="MANY_CONFLICTS",
            severity=Severity.WARNING,
            title=f"{aborted[table.pk]} writes to {table.name} aborted in the last hour.",
            remedy="Open its conflicts: the pair of operations that overlaps most names the suggested fix.",
            table_id=table.pk,
        )


def _ago(now: datetime, then: datetime | None) -> str:
    minutes = int((now - then).total_seconds() // 60) if then else 0
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    shown = [(days, "d"), (hours, "h"), (minutes, "min")]
    return " ".join(f"{count} {unit}" for count, unit in shown if count) or "a moment"
