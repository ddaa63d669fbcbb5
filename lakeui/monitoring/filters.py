"""Filters of the audit log, and labels of its entries."""

from collections.abc import Collection
from typing import Any

import django_filters
from auditlog.models import LogEntry
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model, Q, QuerySet

from lakeui.catalog.filters import BY_TABLE, MomentFilter, TextFilter, is_row_id
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from lakeui.monitoring.audit import OF_A_TABLE, WrittenKey, filter_by_tables

THINGS = {
    "job": "job",
    "table": "table",
    "tablegrant": "role on a table",
    "tablekey": "key",
    "schedule": "schedule",
    "apitoken": "token",
    "linkedidentity": "linked identity",
    "mute": "muted check",
    "statementpair": "repeated conflict",
    "alertchannel": "alert channel",
    "alertrule": "alert rule",
    "discovery": "search for tables",
    "managedcatalog": "catalog",
    "managedschema": "schema",
    "managedtable": "managed table",
    "user": "person",
}
ACTS = {
    LogEntry.Action.CREATE: "made",
    LogEntry.Action.UPDATE: "changed",
    LogEntry.Action.DELETE: "removed",
    LogEntry.Action.ACCESS: "was refused",
}
ACT_CHOICES = [(str(act), said) for act, said in ACTS.items()]


def trail() -> QuerySet[LogEntry]:
    """Return the visible entries, latest first. Their names are queried page by page."""
    others = ContentType.objects.exclude(model__in=THINGS).values_list("pk", flat=True)
    # all but the others: nothing to look up in an index, so that the one by time is used
    entries: QuerySet[LogEntry] = LogEntry.objects.exclude(content_type__in=list(others))
    return entries.prefetch_related("actor", "content_type").order_by("-timestamp", "-pk")


def _ids_of(things: Collection[str]) -> list[int]:
    """Return content types by id: a join with their small table would spoil the order by time."""
    models = [model for model in apps.get_models() if model._meta.model_name in things]
    return [kind.pk for kind in ContentType.objects.get_for_models(*models).values()]  # kept there


class AuditFilter(django_filters.FilterSet):
    """Filters entries by person, act, object, table and time."""

    user = TextFilter(method="filter_user", label="Who")
    act = django_filters.ChoiceFilter(field_name="action", choices=ACT_CHOICES, label="Act")
    thing = django_filters.ChoiceFilter(
        method="filter_thing", choices=list(THINGS.items()), label="Thing"
    )
    table = TextFilter(method="filter_table", label="Table", help_text=BY_TABLE)
    since = MomentFilter(field_name="timestamp", lookup_expr="gte", label="At or after")
    until = MomentFilter(field_name="timestamp", lookup_expr="lt", label="Before")

    class Meta:
        model = LogEntry
        fields: list[str] = []

    def filter_user(self, entries: QuerySet[LogEntry], _name: str, user: str) -> QuerySet[LogEntry]:
        people = User.objects.filter(username__iexact=user).values_list("pk", flat=True)
        return entries.filter(actor__in=list(people))

    def filter_thing(
        self, entries: QuerySet[LogEntry], _name: str, thing: str
    ) -> QuerySet[LogEntry]:
        return entries.filter(content_type__in=_ids_of([thing]))

    def filter_table(
        self, entries: QuerySet[LogEntry], _name: str, text: str
    ) -> QuerySet[LogEntry]:
        """Find each kind of entry by its own index, then order them."""
        is_id = is_row_id(text)
        own = Q(name=text) | Q(pk=int(text)) if is_id else Q(name=text)
        ids = list(Table.objects.filter(own).values_list("pk", flat=True))
        return entries.filter(pk__in=_select_entries(ids)) if ids else entries.none()


def _select_entries(tables: list[int]) -> QuerySet[LogEntry, Any]:
    """Return the keys of entries about tables, their jobs and other objects, as a subquery.

    However many jobs a table has, none of them is loaded. Entries of jobs are found by key alone:
    by their kind, most of the audit log would be read.
    """
    jobs = Job.objects.filter(table__in=tables).order_by()
    conditions = [
        Q(content_type__in=_ids_of(["table"]), object_id__in=tables),
        Q(object_pk__in=jobs.values(written=WrittenKey("pk"))),
        filter_by_tables(tables),
        *(
            Q(content_type__in=_ids_of([thing]), object_id__in=_rows_of(model, tables))
            for thing, model in OF_A_TABLE.items()
        ),
    ]
    first, *others = (
        LogEntry.objects.filter(condition).order_by().values("pk") for condition in conditions
    )
    entries: QuerySet[LogEntry, Any] = first.union(*others, all=True)
    return entries


def _rows_of(model: type[Model], tables: list[int]) -> QuerySet[Any, Any]:
    return model._default_manager.filter(table__in=tables).order_by().values("pk")
