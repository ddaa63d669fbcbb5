"""The job behind a version of a table: the one place that knows.

The row of a job holds the version that it committed to its own table. A script may commit several,
also to other tables: its log has the read and the committed version of each step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from engine.commands.model import Script
from lakeui.catalog.former_tables import filter_current_table
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from lakeui.jobs.timeline import span_ms


@dataclass(frozen=True, slots=True)
class VersionJob:
    """The job behind a version: its start on that version, and its attempt.

    `attempt` is None for a step of a script, `ended_at` if it is not on record.
    """

    job_id: UUID
    began_at: datetime | None
    ended_at: datetime | None
    attempt: int | None

    @property
    def took_ms(self) -> int | None:
        """From the start of the attempt to its end; None if either is not recorded."""
        return _span_ms(self.began_at, self.ended_at)


def write_ms(
    maker: VersionJob | None, reported: tuple[datetime | None, datetime | None], logged: object
) -> int | None:
    """Return the duration of a landed write, the same on every page; None if unrecorded.

    It is the attempt's for a job of ours, the `reported` one (began, ended) for a pipeline, and the
    `logged` `executionTimeMs` for others.
    """
    own = maker.took_ms if maker else _span_ms(*reported)
    return int(str(logged)) if own is None and str(logged).isdecimal() else own


def _span_ms(began: datetime | None, ended: datetime | None) -> int | None:
    if began is None or ended is None:
        return None
    return span_ms(began, ended)


def makers_of(table: Table, first: int, last: int) -> Mapping[int, VersionJob]:
    """Return our jobs behind the versions of a range."""
    rows = table.jobs.filter(
        filter_current_table(table, "finished_at"),
        committed_version__range=(first, last),
        attempt_rows__outcome=JobAttempt.Outcome.COMMITTED,
    ).values_list(
        "committed_version",
        "pk",
        "attempt_rows__started_at",
        "attempt_rows__finished_at",
        "attempt_rows__number",
    )
    makers = {row[0]: VersionJob(*row[1:]) for row in rows if row[0] is not None}
    return {**makers, **_steps(table, first, last)}


def job_of_version(jobs: QuerySet[Job], table: Table, version: int) -> Job | None:
    """Return the latest of some jobs that made a version of a table."""
    own = Q(filter_current_table(table, "finished_at"), table=table, committed_version=version)
    step = Q(pk__in=_step_ends(table, version, version).values("job"))
    return jobs.filter(own | step).order_by("-created_at").first()


def scripts_elsewhere(table: Table, scripts: Iterable[UUID]) -> frozenset[UUID]:
    """Return the running scripts whose current step is on another table, or not begun."""
    begun = JobEvent.objects.filter(job__in=list(scripts), data__has_key="base_of_step")
    tables = {event.job_id: event.data.get("table") for event in begun.order_by("at", "pk")}
    return frozenset(script for script in scripts if tables.get(script) != table.name)


def _steps(table: Table, first: int, last: int) -> Mapping[int, VersionJob]:
    ends = _step_ends(table, first, last).order_by("at", "pk")
    return {
        end.data["version"]: VersionJob(
            end.job_id, parse_datetime(end.data.get("began_at", "")), end.at, None
        )
        for end in ends
    }


def _step_ends(table: Table, first: int, last: int) -> QuerySet[JobEvent]:
    """Return the log events of script steps that made these versions of a table."""
    scripts = Job.also_changes.through.objects.filter(table=table).values("job")
    return JobEvent.objects.filter(
        filter_current_table(table, "at"),
        Q(job__in=scripts) | Q(job__table=table, job__kind=Script.kind),
        data__has_key="ended_step",
        data__table=table.name,
        data__version__gte=first,
        data__version__lte=last,
    )
