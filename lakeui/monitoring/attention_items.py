"""Requests for what needs attention, and the items that answer them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import QuerySet

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.models import HEAVY, Table
from lakeui.jobs.models import Job
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.mutes import ActiveMutes
from lakeui.monitoring.recent_conflicts import ConflictsOfDay

NONE = (0,)  # of no row, so that a page asks as often whether there is something or not


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """One cause. `since`: its start, if known; `facts`: its figures by name."""

    condition: Condition
    table: Table | None = None
    since: datetime | None = None
    job: Job | None = None
    version: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttentionRequest:
    """A person, now, and at most how many items of each condition.

    `is_single`: one condition is asked for, which leaves nothing for another one to tell.
    """

    user: Person
    now: datetime
    day: ConflictsOfDay
    muted: ActiveMutes
    most: int
    is_single: bool = False

    def exclude_muted(
        self, condition: Condition, rows: "QuerySet[Any]", column: str
    ) -> "QuerySet[Any]":
        """Return the rows whose table is not muted for the condition."""
        if self.muted.hides(condition):
            return rows.none()
        return rows.exclude(**{f"{column}__in": self.muted.list_muted_tables(condition)})

    def first_of(self, rows: "QuerySet[Any]") -> tuple[list[Any], int]:
        """Return the first rows, and how many there are; counted only where these are not all."""
        first = list(rows[: self.most])
        return first, len(first) if len(first) < self.most else rows.order_by().count()

    def tables_by_id(self, pks: Collection[int]) -> Mapping[int, Table]:
        """Return a few tables by number, as far as this person may see them."""
        return {
            row.pk: row
            for row in visible_tables(self.user).defer(*HEAVY).filter(pk__in=pks or NONE)
        }


FoundItems: TypeAlias = tuple[list[AttentionItem], int]
"""The first items of a condition, and how many it has."""
Finder: TypeAlias = Callable[[AttentionRequest, int], FoundItems]
"""Find the items of one condition beyond a threshold."""
