"""What tables and versions can be narrowed by, in pages and REST alike."""

import django_filters
from django.db.models import Exists, OuterRef, Q, QuerySet

from lakeui.catalog.health import HEALTH, Health
from lakeui.catalog.models import Commit, LiveFile, Table

MAX_INT64 = 2**63 - 1
MAX_ID_DIGITS = 18  # what a 64-bit column holds whatever the digits are
LEVELS = [(level, level) for level in ("Serializable", "WriteSerializable")]


class TableFilter(django_filters.FilterSet):
    """Tables by name, health, isolation level and row-level concurrency."""

    q = django_filters.CharFilter(method="filter_q", label="Name, place or description holds")
    health = django_filters.ChoiceFilter(
        choices=Health.choices, method="filter_health", label="Health"
    )
    level = django_filters.ChoiceFilter(
        choices=LEVELS, field_name="isolation_level", label="Isolation level in force"
    )
    row_level = django_filters.BooleanFilter(
        field_name="row_level_eligible", label="Row-level concurrency"
    )
    sort = django_filters.OrderingFilter(
        fields=[
            ("name", "name"),
            ("size_bytes", "size"),
            ("file_count", "files"),
            ("small_file_count", "small_files"),
            ("last_commit_at", "last_commit"),
            ("mirrored_at", "mirrored"),
        ],
        label="Order",
    )

    class Meta:
        model = Table
        fields: list[str] = []

    def filter_q(self, tables: QuerySet[Table], _name: str, text: str) -> QuerySet[Table]:
        return tables.filter(
            Q(name__icontains=text) | Q(uri__icontains=text) | Q(description__icontains=text)
        )

    def filter_health(self, tables: QuerySet[Table], _name: str, health: str) -> QuerySet[Table]:
        return tables.alias(_health=HEALTH).filter(_health=health)


class CommitFilter(django_filters.FilterSet):
    """Versions of a table by what was done, by whom, when, and whether another write lost to it."""

    operation = django_filters.CharFilter(lookup_expr="iexact", label="Operation")
    user = django_filters.CharFilter(field_name="user_name", lookup_expr="iexact", label="User")
    since = django_filters.IsoDateTimeFilter(
        field_name="committed_at", lookup_expr="gte", label="Committed at or after"
    )
    until = django_filters.IsoDateTimeFilter(
        field_name="committed_at", lookup_expr="lt", label="Committed before"
    )
    conflict = django_filters.BooleanFilter(
        method="filter_conflict", label="Met another write that is on record"
    )

    class Meta:
        model = Commit
        fields: list[str] = []

    def filter_conflict(
        self, commits: QuerySet[Commit], _name: str, wanted: bool
    ) -> QuerySet[Commit]:
        sides = {"pk": OuterRef("table_id"), "conflicts__winning_version": OuterRef("version")}
        met = Exists(Table.objects.filter(**sides))
        return commits.filter(met if wanted else ~met)


class LiveFileFilter(django_filters.FilterSet):
    """Live files by path, size and whether a deletion vector hides some of their rows."""

    path = django_filters.CharFilter(lookup_expr="icontains", label="Path holds")
    min_size = django_filters.NumberFilter(
        field_name="size_bytes", lookup_expr="gte", min_value=0, max_value=MAX_INT64
    )
    max_size = django_filters.NumberFilter(
        field_name="size_bytes", lookup_expr="lte", min_value=0, max_value=MAX_INT64
    )
    vectored = django_filters.BooleanFilter(method="filter_vectored", label="Has a deletion vector")
    sort = django_filters.OrderingFilter(
        fields=[("path", "path"), ("size_bytes", "size"), ("deleted_row_count", "deleted_rows")]
    )

    class Meta:
        model = LiveFile
        fields: list[str] = []

    def filter_vectored(
        self, files: QuerySet[LiveFile], _name: str, wanted: bool
    ) -> QuerySet[LiveFile]:
        return (
            files.filter(deleted_row_count__gt=0) if wanted else files.filter(deleted_row_count=0)
        )


def by_table(text: str) -> Q:
    """Rows whose `table` has that id or name."""
    named = Q(name=text)
    is_id = text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS
    tables = Table.objects.filter(named | Q(pk=int(text)) if is_id else named)
    return Q(table__in=list(tables.values_list("pk", flat=True)))  # by number: an index has it
