"""What the checks say to each other: who asks, and what one of them tells."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import QuerySet

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.models import HEAVY, Table
from lakeui.jobs.models import Job
from lakeui.monitoring.checks import AttentionCheck
from lakeui.monitoring.mutes import ActiveMutes
from lakeui.monitoring.recent_conflicts import ConflictsOfDay

NONE = (0,)  # of no row, so that a page asks as often whether there is something or not


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """One thing. `since`: when it began, where that is known; `facts`: its figures by name."""

    check: AttentionCheck
    table: Table | None = None
    since: datetime | None = None
    job: Job | None = None
    version: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttentionRequest:
    """A person, now, and at most how many items of each check."""

    user: Person
    now: datetime
    day: ConflictsOfDay
    muted: ActiveMutes
    most: int

    def exclude_muted(
        self, check: AttentionCheck, rows: "QuerySet[Any]", column: str
    ) -> "QuerySet[Any]":
        if self.muted.hides(check):
            return rows.none()
        return rows.exclude(**{f"{column}__in": self.muted.list_muted_tables(check)})

    def first_of(self, rows: "QuerySet[Any]") -> tuple[list[Any], int]:
        """The first rows, and how many there are; counted only where these are not all."""
        first = list(rows[: self.most])
        return first, len(first) if len(first) < self.most else rows.order_by().count()

    def tables_by_id(self, pks: Collection[int]) -> Mapping[int, Table]:
        """A few tables by number, as far as this person may see them."""
        return {
            row.pk: row
            for row in visible_tables(self.user).defer(*HEAVY).filter(pk__in=pks or NONE)
        }


CheckItems = tuple[AttentionCheck, int, list[AttentionItem]]
"""A check, how many items it has, and the first of them."""
Finder: TypeAlias = tuple[
    frozenset[AttentionCheck], Callable[[AttentionRequest], Iterator[CheckItems]]
]
"""A function that finds items, after the checks that it finds them for."""
