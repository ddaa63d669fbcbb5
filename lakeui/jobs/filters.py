"""The jobs visible to a person, and their filters."""

import django_filters
from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.filters import BY_TABLE, filter_by_table, table_ids
from lakeui.catalog.models import Table
from lakeui.catalog.query_filters import MomentFilter, TextFilter
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.writers import jobs_changing


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
