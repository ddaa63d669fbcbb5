"""Filters of tables and versions, in pages and REST alike.

Whatever a query string holds, the values fit a database.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.db.models import Count, Q, QuerySet, TextField, Window
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone
from django_filters.fields import IsoDateTimeField

from engine.protocol.properties import SETTABLE_LEVELS
from lakeui.catalog.health import Health
from lakeui.catalog.hours import RANGES
from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table

MAX_TEXT = 1000


class RangeFilter(django_filters.ChoiceFilter):
    """A span up to now, by its name."""

    def __init__(self, **options: object) -> None:
        super().__init__(choices=[(name, name) for name in RANGES], **options)

    def filter(self, rows: QuerySet[Any], name: str) -> QuerySet[Any]:
        if name not in RANGES:
            return rows
        return rows.filter(**{f"{self.field_name}__gte": RANGES[name].start(timezone.now())})


MAX_INT64 = 2**63 - 1
BY_TABLE = "Table, by id or name"
PARTITION_VERSIONS = 200  # versions whose files are searched
MAX_ID_DIGITS = 18  # digits that always fit a 64-bit column


def is_row_id(text: str) -> bool:
    """Return whether a text can be the id of a row: digits that fit the database's column."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS


TABLE_TEXTS = ("name", "uri", "description")
LEVELS = [(level.value, level.value) for level in SETTABLE_LEVELS]


class QueryTextField(forms.CharField):
    """Text of bounded length: SQLite refuses long patterns, and each part of one costs."""

    default_validators = [MaxLengthValidator(MAX_TEXT)]


class TextFilter(django_filters.CharFilter):
    """A text, or a part of it."""

    field_class = QueryTextField


class MomentField(IsoDateTimeField):
    """RFC 3339 and ISO 8601; no time whose UTC lies outside the calendar."""

    def to_python(self, value: object) -> datetime | None:
        try:
            moment: datetime | None = super().to_python(value)
            return moment and moment.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error


class MomentFilter(django_filters.IsoDateTimeFilter):
    """A moment, in UTC."""

    field_class = MomentField


class TableFilter(django_filters.FilterSet):
    """Tables with their `health`, by name, health, isolation level and row-level concurrency."""

    q = TextFilter(
        method="filter_q",
        label="Text",
        help_text="Name, place and description hold each of its words",
    )
    namespace = TextFilter(
        method="filter_namespace",
        label="Namespace",
        help_text="The first part of the name, before a dot",
    )
    health = django_filters.ChoiceFilter(
        choices=Health.choices, field_name="health", label="Health"
    )
    level = django_filters.ChoiceFilter(
        choices=LEVELS, field_name="isolation_level", label="Isolation level"
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
        return tables.filter(match_words(text, *TABLE_TEXTS))

    def filter_namespace(
        self, tables: QuerySet[Table], _name: str, namespace: str
    ) -> QuerySet[Table]:
        return tables.filter(name__startswith=f"{namespace}.")


class CommitFilter(django_filters.FilterSet):
    """Filters versions of a table by operation, writer, time and change."""

    operation = TextFilter(lookup_expr="iexact", label="Operation")
    user = TextFilter(field_name="user_name", lookup_expr="iexact", label="Writer")
    since = MomentFilter(
        field_name="committed_at", lookup_expr="gte", label="Committed at or after"
    )
    until = MomentFilter(field_name="committed_at", lookup_expr="lt", label="Committed before")
    q = TextFilter(
        method="filter_q",
        label="Text",
        help_text="Condition, parameters, reason or transaction id contains",
    )
    partition = TextFilter(
        method="filter_partition",
        label="Partition",
        help_text="Changed the partition, such as day=2026-11-20 (among the latest "
        f"{PARTITION_VERSIONS} versions)",
    )

    class Meta:
        model = Commit
        fields: list[str] = []

    def filter_q(self, commits: QuerySet[Commit], _name: str, text: str) -> QuerySet[Commit]:
        said = Cast("operation_parameters", TextField())
        plain = Q(predicate__icontains=text) | Q(user_metadata__icontains=text)
        either = plain | Q(_said__icontains=text) | Q(txn_id__istartswith=text)
        return commits.alias(_said=said).filter(either)

    def filter_partition(
        self, commits: QuerySet[Commit], _name: str, text: str
    ) -> QuerySet[Commit]:
        """Filter by partition, one path segment per column: `a=1/b=2`, or `a=1, b=2`."""
        pairs = [part.partition("=") for part in text.replace("/", ",").split(",") if part.strip()]
        newest = commits.order_by("-version").values_list("pk", flat=True)[:PARTITION_VERSIONS]
        touched = CommitFile.objects.filter(commit__in=list(newest))
        for number, (column, _, value) in enumerate(pairs):
            held = Cast(KeyTextTransform(column.strip(), "partition_values"), TextField())
            name = f"_held_{number}"
            touched = touched.alias(**{name: held}).filter(**{name: value.strip()})
        commit_ids = touched.order_by().values_list("commit_id", flat=True).distinct()
        return commits.filter(pk__in=list(commit_ids))


class LiveFileFilter(django_filters.FilterSet):
    """Live files by path, size and whether a deletion vector hides some of their rows."""

    path = TextFilter(lookup_expr="icontains", label="Path holds")
    min_size = django_filters.NumberFilter(
        field_name="size_bytes",
        lookup_expr="gte",
        min_value=0,
        max_value=MAX_INT64,
        label="Bytes, at least",
    )
    max_size = django_filters.NumberFilter(
        field_name="size_bytes",
        lookup_expr="lte",
        min_value=0,
        max_value=MAX_INT64,
        label="Bytes, at most",
    )
    vectored = django_filters.BooleanFilter(method="filter_vectored", label="Has a deletion vector")
    sort = django_filters.OrderingFilter(
        fields=[("path", "path"), ("size_bytes", "size"), ("deleted_row_count", "deleted_rows")]
    )

    class Meta:
        model = LiveFile
        fields: list[str] = []

    def filter_vectored(
        self, files: QuerySet[LiveFile], _name: str, value: bool
    ) -> QuerySet[LiveFile]:
        return files.filter(deleted_row_count__gt=0) if value else files.filter(deleted_row_count=0)


def match_words(text: str, *fields: str) -> Q:
    """Return the condition for rows that hold every word of a text, each in any of the fields."""
    matches = Q()
    for word in text.split():
        matches &= Q(*((f"{field}__icontains", word) for field in fields), _connector=Q.OR)
    return matches


def list_namespaces(tables: QuerySet[Table]) -> list[tuple[str, int]]:
    """List the first parts of dotted names with their numbers of tables, the most first."""
    names = tables.order_by().filter(name__contains=".").values_list("name", flat=True)
    return Counter(name.partition(".")[0] for name in names).most_common()


def filter_by_table(text: str) -> Q:
    """Return the condition for rows whose `table` has this id or name."""
    return Q(table__in=table_ids(text))  # by id: uses an index


def table_ids(text: str) -> list[int]:
    """Return the ids of the tables with this id or name."""
    named = Q(name=text)
    is_id = is_row_id(text)
    tables = Table.objects.filter(named | Q(pk=int(text)) if is_id else named)
    return list(tables.values_list("pk", flat=True))


def count_by_table(rows: QuerySet[Any]) -> Counter[int]:
    """Count these rows by their `table`; rows without one are not counted."""
    return Counter(dict(_count_by_table(rows)))


def most_by_table(rows: QuerySet[Any], most: int) -> tuple[list[int], int]:
    """Return the tables with the most of these rows, by id, and the number of tables with any."""
    of_all = Window(Count("*"))
    ranked = list(_count_by_table(rows).annotate(all=of_all).order_by("-n", "of")[:most])
    return [table for table, _, _ in ranked], ranked[0][2] if ranked else 0


def _count_by_table(rows: QuerySet[Any]) -> Any:  # noqa: ANN401 - a query of pairs
    """Return pairs of a table's id and its number of these rows.

    They are grouped by a computed value: grouped by the column itself, SQLite scans all rows, table
    by table, in an index without the filtered columns.
    """
    of_tables = rows.filter(table__isnull=False).annotate(of=Coalesce("table_id", 0))
    return of_tables.values_list("of").annotate(n=Count("*"))
