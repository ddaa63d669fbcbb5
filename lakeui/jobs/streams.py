"""Streams over a table that ran as jobs here: those that read it, and those that a version stopped.

Streams elsewhere leave no trace.
"""

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from lakeui.catalog.access import Person
from lakeui.catalog.models import Commit, Table
from lakeui.jobs.filters import reads_from, visible_jobs
from lakeui.jobs.models import Job

DAYS = 7
_LOOKED_AT = 200

_STOPS = (
    "DELTA_SCHEMA_CHANGED_WITH_VERSION",
    "DELTA_SOURCE_IGNORE_DELETE",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
)
_SHOWN = 5


def streams_reading(table: Table, user: Person) -> tuple[str, ...]:
    """Return the names of the streams of the last days whose jobs are visible to this person."""
    since = timezone.now() - timedelta(days=DAYS)
    lately = visible_jobs(user).filter(reads_from(table), kind="stream", created_at__gte=since)
    rows = lately.order_by("-created_at").values_list("parameters", "table__name")[:_LOOKED_AT]
    names = (parameters.get("stream_name") or f"into {target}" for parameters, target in rows)
    return tuple(dict.fromkeys(names))


def streams_stopped_by(commit: Commit, user: Person) -> list[Job]:
    """Return the first few streams that failed at this version and are visible to this person.

    Streams elsewhere leave no trace here.
    """
    table = commit.table
    failed = _list_failed_streams(commit, visible_jobs(user)).filter(reads_from(table))
    at_version = failed.filter(error_facts__version=commit.version)
    return list(at_version.select_related("table").order_by("finished_at")[:_SHOWN])


def _list_failed_streams(commit: Commit, jobs: QuerySet[Job]) -> QuerySet[Job]:
    failed = jobs.filter(state=Job.State.FAILED, kind="stream", error_code__in=_STOPS)
    after = commit.committed_at
    return failed.filter(finished_at__gte=after) if after is not None else failed


def select_stopped_streams(jobs: QuerySet[Job], since: datetime) -> QuerySet[Job]:
    """Return the streams that ended in an error since then and were not started again.

    A stream of a schedule is told by its schedule.
    """
    again = Job.objects.filter(retry_of=OuterRef("pk"))
    return jobs.filter(
        Q(schedule=None) | Q(schedule__enabled=False),
        ~Exists(again),
        kind="stream",
        state__in=[Job.State.FAILED, Job.State.CONFLICTED],
        finished_at__gte=since,
    )
