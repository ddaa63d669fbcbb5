"""A version's effects on other writes, and the conflicts that it resolved before it landed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce

from lakeui.catalog.former_tables import filter_current_table
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict

SHOWN = 20
BECAME = Coalesce("job__committed_version", "attempted_version")
"""The version of the write that resolved a conflict."""


@dataclass(frozen=True, slots=True)
class VersionEffects:
    """The conflicts of a version: at most `SHOWN` of each kind, with the full counts.

    `aborted` are attempts aborted by it, `passed` those that got past it, `resolved` the conflicts
    that it resolved itself before it landed.
    """

    aborted: tuple[Conflict, ...]
    aborted_count: int
    passed: tuple[Conflict, ...]
    passed_count: int
    resolved: tuple[Conflict, ...]
    resolved_count: int

    @property
    def is_any(self) -> bool:
        return bool(self.aborted_count or self.passed_count or self.resolved_count)


def conflicts_of(table: Table) -> QuerySet[Conflict]:
    """Return the conflicts about versions of the current table."""
    return table.conflicts.filter(filter_current_table(table, "occurred_at"))


def effects_of(table: Table, version: int) -> VersionEffects:
    """Return a version's effects, as far as conflicts are recorded here."""
    of_it = conflicts_of(table)
    overlaps = of_it.filter(winning_version=version).defer("facts").select_related("job")
    conflicts = of_it.filter(kind=Conflict.Kind.RESOLVED).defer("facts")
    aborted = overlaps.exclude(kind=Conflict.Kind.RESOLVED).order_by("-occurred_at")
    passed = overlaps.filter(kind=Conflict.Kind.RESOLVED).order_by("-occurred_at")
    became = Q(job__committed_version=version) | Q(attempted_version=version)
    resolved = conflicts.filter(became).order_by("winning_version")
    return VersionEffects(*_some(aborted), *_some(passed), *_some(resolved))


def count_aborted_by_version(table: Table, low: int, high: int) -> dict[int, int]:
    """Count the attempts aborted by each version of a span."""
    overlaps = conflicts_of(table).filter(winning_version__range=(low, high))
    return _count_by_version(
        overlaps.exclude(kind=Conflict.Kind.RESOLVED).values_list("winning_version")
    )


def count_resolved_by_version(table: Table, low: int, high: int) -> dict[int, int]:
    """Count the conflicts that each version of a span resolved before it landed."""
    conflicts = conflicts_of(table).filter(kind=Conflict.Kind.RESOLVED)
    became = conflicts.annotate(version=BECAME)
    return _count_by_version(became.filter(version__range=(low, high)).values_list("version"))


def _count_by_version(versions: "QuerySet[Any, Any]") -> dict[int, int]:
    return dict(versions.order_by().annotate(n=Count("pk")))


def _some(conflicts: QuerySet[Conflict]) -> tuple[tuple[Conflict, ...], int]:
    """Return the first of them, and their number: counted only if there are more."""
    first: Iterable[Conflict] = tuple(conflicts[: SHOWN + 1])
    rows = tuple(first)
    return rows[:SHOWN], conflicts.count() if len(rows) > SHOWN else len(rows)
