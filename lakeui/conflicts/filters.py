"""The conflicts visible to a person, and their filters.

A log shows a condition to everybody who sees its table, but an aborted write is in no log: its
condition is for people who may read the statement. Facts about tables hidden from their reader are
withheld.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import django_filters
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.filters import (
    BY_TABLE,
    MAX_INT64,
    CommitFilter,
    MomentFilter,
    RangeFilter,
    TextFilter,
    filter_by_table,
)
from lakeui.catalog.hours import RANGES
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict, StatementPair
from lakeui.conflicts.version_effects import BECAME, conflicts_of

_MAX_RESOLVING = 5000

_HOLDS_QUERY = re.compile(r"\bSELECT\b", re.IGNORECASE)


def visible_conflicts(user: Person) -> QuerySet[Conflict]:
    """Return the conflicts on tables visible to a person; others need a role on all tables."""
    if role_of(user) is not None:
        return Conflict.objects.all()
    return Conflict.objects.filter(table__in=visible_tables(user))


def visible_pairs(user: Person) -> QuerySet[StatementPair]:
    """Return the pairs of statements on tables visible to a person."""
    pairs = StatementPair.objects.all()
    return pairs if role_of(user) else pairs.filter(table__in=visible_tables(user))


def prepare_list(conflicts: QuerySet[Conflict]) -> QuerySet[Conflict]:
    """Prepare conflicts for a list, without the long facts."""
    said = KeyTextTransform("row_level", "facts")
    return (
        conflicts.select_related("table", "transaction__pipeline")
        .defer("facts")
        .annotate(said_of_rows=said)
    )


class VersionFilter(CommitFilter):
    """Filters versions of a table by operation, writer, time, change, and conflicts."""

    conflict = django_filters.BooleanFilter(
        method="filter_conflict", label="Overlapped with another write"
    )
    beat = django_filters.BooleanFilter(method="filter_beat", label="Aborted other writes")
    resolved = django_filters.BooleanFilter(method="filter_resolved", label="Resolved a conflict")

    def filter_conflict(
        self, commits: QuerySet[Commit], _name: str, value: bool
    ) -> QuerySet[Commit]:
        overlaps = Exists(_conflicts_of(commits).filter(winning_version=OuterRef("version")))
        return commits.filter(overlaps if value else ~overlaps)

    def filter_beat(self, commits: QuerySet[Commit], _name: str, value: bool) -> QuerySet[Commit]:
        of_version = _conflicts_of(commits).filter(winning_version=OuterRef("version"))
        aborted = Exists(of_version.filter(kind__in=Conflict.ABORTED_KINDS))
        return commits.filter(aborted if value else ~aborted)

    def filter_resolved(
        self, commits: QuerySet[Commit], _name: str, value: bool
    ) -> QuerySet[Commit]:
        """Filter by version number: one table has few, instead of a lookup per version."""
        resolved = _conflicts_of(commits).filter(kind=Conflict.Kind.RESOLVED)
        became = resolved.annotate(version=BECAME).filter(version__isnull=False).order_by()
        versions = became.values_list("version", flat=True).distinct()[:_MAX_RESOLVING]
        resolving = Q(version__in=list(versions))
        return commits.filter(resolving if value else ~resolving)


def _conflicts_of(commits: QuerySet[Commit]) -> QuerySet[Conflict]:
    """Return the conflicts of the one table of all these versions."""
    pks = list(commits.order_by().values_list("table_id", flat=True)[:1])
    table = Table.objects.only("begun_at").filter(pk__in=pks).first()
    return Conflict.objects.none() if table is None else conflicts_of(table)


class ConflictFilter(django_filters.FilterSet):
    """Filters conflicts by end, exception, pair of operations, table, person, time."""

    kind = django_filters.ChoiceFilter(choices=Conflict.Kind.choices, label="How it ended")
    exception = TextFilter(lookup_expr="iexact", label="Exception")
    code = TextFilter(lookup_expr="iexact", label="Error class")
    subclass = TextFilter(lookup_expr="iexact", label="Sub-class")
    pair = TextFilter(
        method="filter_pair",
        label="Operations",
        help_text="A pair of operations, the aborted write first: UPDATE,DELETE",
    )
    table = TextFilter(method="filter_table", label="Table", help_text=BY_TABLE)
    user = TextFilter(
        method="filter_user", label="Writer", help_text="Either writer, or the name of a pipeline"
    )
    range = RangeFilter(field_name="occurred_at", label="Range")
    repeated = django_filters.NumberFilter(
        field_name="statement_pair",
        label="Pair of statements",
        help_text="The id of a repeated conflict",
        min_value=0,
        max_value=MAX_INT64,
    )
    since = MomentFilter(field_name="occurred_at", lookup_expr="gte", label="At or after")
    until = MomentFilter(field_name="occurred_at", lookup_expr="lt", label="Before")

    class Meta:
        model = Conflict
        fields: list[str] = []

    def filter_pair(
        self, conflicts: QuerySet[Conflict], _name: str, pair: str
    ) -> QuerySet[Conflict]:
        current, _, winner = (side.strip() for side in pair.partition(","))
        sides = {"current_operation__iexact": current, "winner_operation__iexact": winner}
        return conflicts.filter(**{field: side for field, side in sides.items() if side})

    def filter_table(
        self, conflicts: QuerySet[Conflict], _name: str, table: str
    ) -> QuerySet[Conflict]:
        return conflicts.filter(filter_by_table(table))

    def filter_user(
        self, conflicts: QuerySet[Conflict], _name: str, user: str
    ) -> QuerySet[Conflict]:
        either = Q(current_user_name__iexact=user) | Q(winner_user_name__iexact=user)
        either |= Q(current_user_name__iexact=f"pipeline {user}")
        people = User.objects.filter(username__iexact=user).values_list("pk", flat=True)
        asked = list(people)  # by id: without a match, no job is searched
        return conflicts.filter(either | Q(job__requested_by__in=asked) if asked else either)


STATES = (("open", "open"), ("known", "known"), ("muted", "muted"))
"""The states of a repeated conflict."""


class RepeatedConflictFilter(django_filters.FilterSet):
    """Filters pairs of statements by table, state, assignee and operations."""

    range = django_filters.ChoiceFilter(
        choices=[(name, name) for name in RANGES], method="keep_all", label="Range"
    )
    table = TextFilter(method="filter_table", label="Table", help_text=BY_TABLE)
    state = django_filters.ChoiceFilter(choices=STATES, method="filter_state", label="State")
    assignee = TextFilter(field_name="assignee__username", lookup_expr="iexact", label="Assignee")

    class Meta:
        model = StatementPair
        fields: list[str] = []

    def keep_all(self, pairs: QuerySet[Any], _name: str, _range: str) -> QuerySet[Any]:
        """Keep the pairs: their conflicts of the range are summed before."""
        return pairs

    def filter_table(self, pairs: QuerySet[Any], _name: str, table: str) -> QuerySet[Any]:
        return pairs.filter(filter_by_table(table))

    def filter_state(self, pairs: QuerySet[Any], _name: str, state: str) -> QuerySet[Any]:
        is_muted = Q(mute__until__gt=timezone.now())
        if state == "muted":
            return pairs.filter(is_muted)
        return pairs.exclude(is_muted).filter(is_known=state == "known")


def redact_conflict(conflict: Conflict, reader: Reader) -> Conflict:
    """Return the conflict, or a copy without its condition if the reader may not read it."""
    if may_read_condition(conflict, reader):
        return conflict
    told = copy(conflict)
    told.current_predicate = ""
    if "facts" not in told.get_deferred_fields() and isinstance(told.facts, dict):
        current = told.facts.get("current")
        if isinstance(current, dict):
            told.facts = told.facts | {"current": current | {"predicate": None}}
    return told


def redact_conflicts(conflicts: Iterable[Conflict], reader: Reader) -> Iterator[Conflict]:
    """Yield each conflict as `redact_conflict` returns it."""
    return (redact_conflict(conflict, reader) for conflict in conflicts)


def may_read_condition(conflict: Conflict, reader: Reader) -> bool:
    """Whether the reader may see every table that the aborted write's condition can name."""
    if reader.sees_all or not conflict.current_predicate:
        return True
    if conflict.current_operation.upper() == "MERGE":
        return conflict.job is None or reader.may_read(conflict.job)
    return may_read_text(conflict.current_predicate, reader)


def may_read_text(predicate: str, reader: Reader) -> bool:
    """Whether the reader may see every table in the subqueries of a condition."""
    if reader.sees_all or not _HOLDS_QUERY.search(predicate):
        return True
    return reader.may_read_statement(f"DELETE FROM t WHERE {predicate}")  # noqa: S608 - parsed, not run
