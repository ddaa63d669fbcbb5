"""The jobs and schedules visible to a person, and their filters.

Facts about tables hidden from their reader are withheld.
"""

from copy import copy
from typing import TypeVar

import django_filters
from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.filters import (
    BY_TABLE,
    MomentFilter,
    RangeFilter,
    TextFilter,
    filter_by_table,
    table_ids,
)
from lakeui.catalog.models import Table
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.writers import jobs_changing

WITHHELD = "It names tables that you may not see."
WITHHELD_STATEMENT = "-- names tables that you may not see"
_Asked = TypeVar("_Asked", Job, Schedule)


def visible_jobs(user: Person) -> QuerySet[Job]:
    """Return the jobs on tables visible to a person."""
    if role_of(user) is not None:  # all tables are visible: no filter needed
        return Job.objects.all()
    return Job.objects.filter(table__in=visible_tables(user))


def state_counts(jobs: QuerySet[Job]) -> dict[str, int]:
    """Return the number of jobs in each state; "active" counts those that have not ended."""
    rows = jobs.order_by().values_list("state").annotate(n=Count("state"))
    counts = {str(state): int(n) for state, n in rows}
    return counts | {"active": sum(counts.get(state, 0) for state in Job.ACTIVE)}


class JobFilter(django_filters.FilterSet):
    """Jobs by state, kind, table, person and time."""

    state = django_filters.MultipleChoiceFilter(
        choices=[*Job.State.choices, ("active", "active")], method="filter_state", label="State"
    )
    kind = TextFilter(lookup_expr="iexact", label="Kind")
    table = TextFilter(method="filter_table", label="Table", help_text=BY_TABLE)
    user = TextFilter(method="filter_user", label="Requested by")
    schedule = django_filters.NumberFilter(
        field_name="schedule_id", label="Schedule", min_value=1, max_value=2**63 - 1
    )
    range = RangeFilter(field_name="created_at", label="Range")
    since = MomentFilter(field_name="created_at", lookup_expr="gte", label="Requested at or after")
    until = MomentFilter(field_name="created_at", lookup_expr="lt", label="Requested before")

    class Meta:
        model = Job
        fields: list[str] = []

    def filter_state(self, jobs: QuerySet[Job], _name: str, states: list[str]) -> QuerySet[Job]:
        if not states:
            return jobs
        matching = Q(state__in=states)
        return jobs.filter(matching | Q(state__in=Job.ACTIVE) if "active" in states else matching)

    def filter_user(self, jobs: QuerySet[Job], _name: str, user: str) -> QuerySet[Job]:
        """Filter by the user's id, so that an index has the jobs in order."""
        people = User.objects.filter(username__iexact=user).values_list("pk", flat=True)
        return jobs.filter(requested_by__in=list(people))

    def filter_table(self, jobs: QuerySet[Job], _name: str, table: str) -> QuerySet[Job]:
        """Filter by a changed table, including scripts of other tables."""
        return jobs.filter(jobs_changing(table_ids(table)))


def visible_schedules(user: Person) -> QuerySet[Schedule]:
    """Return the schedules of tables visible to a person."""
    if role_of(user) is not None:
        return Schedule.objects.all()
    return Schedule.objects.filter(table__in=visible_tables(user))


class ScheduleFilter(django_filters.FilterSet):
    """Schedules by table, kind, owner and whether they rest."""

    table = TextFilter(method="filter_table", label="Table", help_text=BY_TABLE)
    kind = TextFilter(lookup_expr="iexact", label="Kind")
    owner = TextFilter(field_name="owner__username", lookup_expr="iexact", label="Owner")
    enabled = django_filters.BooleanFilter(label="Fires")

    class Meta:
        model = Schedule
        fields: list[str] = []

    def filter_table(
        self, schedules: QuerySet[Schedule], _name: str, table: str
    ) -> QuerySet[Schedule]:
        return schedules.filter(filter_by_table(table))


def reads_from(table: Table) -> Q:
    """Return the condition for jobs of streams with this table as their source."""
    return Q(parameters__source_table=table.name) | Q(parameters__source_table=table.uri)


def redact_job(job: Job, reader: Reader) -> Job:
    """Return the job, or a copy without statement, plan and reasons if it names hidden tables."""
    if reader.may_read(job):
        return job
    told = _redact_command(job)
    told.plan, told.error_facts = {}, {}
    told.error_message = WITHHELD if job.error_message else ""
    return told


def redact_schedule(schedule: Schedule, reader: Reader) -> Schedule:
    """Return the schedule, or a copy without statement and note if it names hidden tables."""
    if reader.may_read(schedule):
        return schedule
    told = _redact_command(schedule)
    told.note = WITHHELD if schedule.note else ""
    return told


def check_readable(asked: Job | Schedule, reader: Reader, what: str) -> None:
    """Check that a person may read a command before they repeat or change it.

    Raises:
        NotPermittedError: it names tables hidden from them.
    """
    if not reader.may_read(asked):
        raise NotPermittedError(what, "view", "all tables that it names")


def _redact_command(asked: _Asked) -> _Asked:
    told = copy(asked)
    told.statement, told.parameters = WITHHELD_STATEMENT, {}
    return told
