"""What the audit trail can be narrowed by, and what its entries are called."""

from collections.abc import Mapping

import django_filters
from auditlog.models import LogEntry
from django.db.models import Q, QuerySet

from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import Table, TableGrant, TableKey
from lakeui.jobs.models import Job, Schedule

THINGS = {
    "job": "job",
    "table": "table",
    "tablegrant": "role on a table",
    "tablekey": "key",
    "schedule": "schedule",
    "apitoken": "token",
    "user": "person",
}
ACTS = {
    LogEntry.Action.CREATE: "made",
    LogEntry.Action.UPDATE: "changed",
    LogEntry.Action.DELETE: "removed",
    LogEntry.Action.ACCESS: "was refused",
}
ACT_CHOICES = [(str(act), said) for act, said in ACTS.items()]
OF_A_TABLE: Mapping[str, type[TableGrant | TableKey | Schedule]] = {
    "tablegrant": TableGrant,
    "tablekey": TableKey,
    "schedule": Schedule,
}
"""Things that name their table in a row of their own."""


class AuditFilter(django_filters.FilterSet):
    """Entries by person, act, what it was done to, table and time."""

    user = django_filters.CharFilter(
        field_name="actor__username", lookup_expr="iexact", label="Who"
    )
    act = django_filters.ChoiceFilter(field_name="action", choices=ACT_CHOICES, label="Act")
    thing = django_filters.ChoiceFilter(
        field_name="content_type__model", choices=list(THINGS.items()), label="Thing"
    )
    table = django_filters.CharFilter(method="filter_table", label="Table, by id or name")
    since = django_filters.IsoDateTimeFilter(
        field_name="timestamp", lookup_expr="gte", label="At or after"
    )
    until = django_filters.IsoDateTimeFilter(
        field_name="timestamp", lookup_expr="lt", label="Before"
    )

    class Meta:
        model = LogEntry
        fields: list[str] = []

    def filter_table(
        self, entries: QuerySet[LogEntry], _name: str, text: str
    ) -> QuerySet[LogEntry]:
        is_id = text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS
        own = Q(name=text) | Q(pk=int(text)) if is_id else Q(name=text)
        ids = list(Table.objects.filter(own).values_list("pk", flat=True))
        texts = [str(pk) for pk in ids]
        jobs = Job.objects.filter(table__in=ids).values_list("pk", flat=True)
        wanted = Q(content_type__model="table", object_id__in=ids)
        wanted |= Q(content_type__model="job", object_pk__in=list(map(str, jobs)))
        for thing, model in OF_A_TABLE.items():
            rows = model.objects.filter(table__in=ids).values_list("pk", flat=True)
            said = Q(changes__table__0__in=texts) | Q(changes__table__1__in=texts)  # when removed
            wanted |= Q(said | Q(object_id__in=list(rows)), content_type__model=thing)
        return entries.filter(wanted)
