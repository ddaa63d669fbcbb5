"""Workers as they reported, with their jobs and Spark's pages; and ended jobs hour by hour.

Reports are cheap enough for every page. Spark's own pages have no authentication: they show the
plans of every table's jobs, with conditions and locations, to everybody who reaches them. So only
admins of all tables get a link.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from lakeui.catalog.access import Person, may
from lakeui.catalog.hours import RANGES, TimeRange, column_named
from lakeui.catalog.reads import live_reads
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job, WorkerReport

MISSED = 4  # reports that may fail to come

APPLICATION = "{application}"

HOURS = 24
WAITS = 500
_MAX_HELD = 200


@dataclass(frozen=True, slots=True)
class Workers:
    """`here` of `known` workers reported recently; workers that shut down are no longer known."""

    here: int
    known: int


def worker_count() -> Workers:
    """Count the workers in one small query."""
    silent = timedelta(seconds=MISSED * settings.WORKER_REPORT_SECONDS)
    lately = Q(seen_at__gte=timezone.now() - silent)
    counts = WorkerReport.objects.aggregate(here=Count("pk", lately), known=Count("pk"))
    return Workers(**counts)


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


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker; `jobs` are those of its leases visible to the reader; `busy` counts all of them.

    `pages` are Spark's own, if the reader may use them.
    """

    report: WorkerReport
    is_here: bool
    busy: int
    jobs: tuple[Job, ...]
    pages: SparkPages | None = None


@dataclass(frozen=True, slots=True)
class SparkSum:
    """The sums of all live Spark workers. None: none of them has Spark."""

    executors: int
    cores: int
    busy_cores: int
    active_stages: int


@dataclass(frozen=True, slots=True)
class Hour:
    """Jobs that ended in an hour, by outcome; dry runs and idle jobs among the succeeded."""

    start: datetime
    succeeded: int = 0
    conflicted: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.conflicted + self.failed + self.cancelled

    @property
    def unsuccessful(self) -> int:
        return self.conflicted + self.failed


@dataclass(frozen=True, slots=True)
class DayThroughput:
    """The last 24 hours, the running one last; how long the latest `WAITS` waited for a worker."""

    hours: tuple[Hour, ...]
    mean_wait_ms: int | None
    longest_wait_ms: int | None

    @property
    def total(self) -> Hour:
        """All hours together."""
        return Hour(
            self.hours[0].start,
            sum(hour.succeeded for hour in self.hours),
            sum(hour.conflicted for hour in self.hours),
            sum(hour.failed for hour in self.hours),
            sum(hour.cancelled for hour in self.hours),
        )


def worker_states(user: Person) -> tuple[WorkerState, ...]:
    """Return the workers by name, live ones before silent ones."""
    late = timezone.now() - timedelta(seconds=MISSED * settings.WORKER_REPORT_SECONDS)
    busy: defaultdict[str, int] = defaultdict(int)
    for worker in _filter_running(Job.objects.order_by()).values_list("worker", flat=True):
        busy[worker.partition("/")[0]] += 1
    for worker in live_reads().exclude(began_at=None).values_list("worker", flat=True):
        busy[worker] += 1
    jobs = _group_held_jobs(user)
    states = (
        WorkerState(
            report,
            is_here=report.seen_at >= late,
            busy=busy[report.name],
            jobs=tuple(jobs.get(report.name, ())),
            pages=spark_pages_of(user, report) if report.seen_at >= late else None,
        )
        for report in WorkerReport.objects.all()
    )
    return tuple(sorted(states, key=lambda state: (not state.is_here, state.report.name)))


def spark_sum(states: tuple[WorkerState, ...]) -> SparkSum | None:
    """Sum Spark's figures over the live workers."""
    here = [state.report for state in states if state.is_here and state.report.cores is not None]
    if not here:
        return None
    return SparkSum(
        executors=sum(report.executors or 0 for report in here),
        cores=sum(report.cores or 0 for report in here),
        busy_cores=sum(report.busy_cores or 0 for report in here),
        active_stages=sum(report.active_stages or 0 for report in here),
    )


def throughput(user: Person, now: datetime, time_range: TimeRange = RANGES["24h"]) -> DayThroughput:
    """Return the throughput of the range's hours or days, in two queries for any number of jobs."""
    columns = time_range.columns(now)[1:]
    ended = visible_jobs(user).filter(finished_at__gte=columns[0]).order_by()
    grouped = (
        ended.annotate(hour=time_range.column("finished_at"))
        .values_list("hour", "state")
        .annotate(n=Count("pk"))
    )
    counts: defaultdict[datetime, dict[str, int]] = defaultdict(dict)
    for hour, state, n in grouped:
        counts[column_named(hour)][state] = n
    hours = (_hour(start, counts) for start in columns)
    started = ended.filter(started_at__isnull=False).order_by("-finished_at")
    rows = started.values_list("created_at", "started_at")[:WAITS]
    waits = [_ms(began - asked) for asked, began in rows if began is not None]
    mean = round(sum(waits) / len(waits)) if waits else None
    return DayThroughput(tuple(hours), mean, max(waits, default=None))


def _hour(start: datetime, counts: Mapping[datetime, Mapping[str, int]]) -> Hour:
    ended = counts.get(start, {})
    return Hour(
        start,
        ended.get(Job.State.SUCCEEDED, 0),
        ended.get(Job.State.CONFLICTED, 0),
        ended.get(Job.State.FAILED, 0),
        ended.get(Job.State.CANCELLED, 0),
    )


def _group_held_jobs(user: Person) -> Mapping[str, list[Job]]:
    held = _filter_running(visible_jobs(user)).select_related("table")
    by_worker: defaultdict[str, list[Job]] = defaultdict(list)
    for job in held.order_by("started_at").defer("plan", "metrics", "error_facts")[:_MAX_HELD]:
        by_worker[job.worker.partition("/")[0]].append(job)
    return by_worker


def _filter_running(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Filter running jobs without an end, which matches an index."""
    return jobs.filter(state__in=Job.AT_WORK, finished_at__isnull=True)


def _ms(span: timedelta) -> int:
    return max(round(span.total_seconds() * 1000), 0)
