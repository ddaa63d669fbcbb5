"""Requests for what needs attention, and the items that answer them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias

from django.db.models import QuerySet

from engine.conflict_facts import Rule
from engine.vocabulary import OPERATIONS
from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.models import HEAVY, Table
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job
from lakeui.jobs.turns import beat_seen_at
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.mutes import ActiveMutes
from lakeui.monitoring.recent_conflicts import DAY, ConflictsOfDay, TableSums, sum_pairs

NONE = (0,)  # of no row, so that a page asks as often whether there is something or not
_CHANGES_NO_METADATA = tuple({row.name for row in OPERATIONS if not row.may_change_terms})
"""No row of these winners has to be read: an index holds the name."""
_OF_A_CONFLICT = (
    "table_id", "winning_version", "winner_operation", "winner_user_name", "current_operation",
    "wasted_ms", "wasted_bytes", "occurred_at",
)  # fmt: skip
_MOST_ABORTED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """One cause. `since`: its start, if known; `facts`: its figures by name."""

    condition: Condition
    table: Table | None = None
    since: datetime | None = None
    job: Job | None = None
    version: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
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

    @cached_property
    def beat_seen_at(self) -> datetime | None:
        """Return when beat last gave a sign of life."""
        return beat_seen_at()

    @cached_property
    def aborted_by_table(self) -> Mapping[int, TableSums]:
        """Return each table's aborted writes of 24 hours, without those of muted statements."""
        return exclude_muted_pairs(self.day.by_table, self.muted, self.now)

    @cached_property
    def metadata_conflicts(self) -> Mapping[tuple[int, int], list[Mapping[str, Any]]]:
        """Return the writes of 24 hours that a change of the metadata aborted, by table and version.

        Rows are put together here: grouped by table, SQLite would read every conflict there ever was.
        """
        aborted = (
            visible_conflicts(self.user)
            .filter(
                kind__in=Conflict.ABORTED_KINDS,
                occurred_at__gte=self.now - DAY,
                rule__in=(Rule.METADATA_CHANGED, Rule.PROTOCOL_CHANGED),
            )
            .exclude(statement_pair__in=self.muted.pairs)
        )
        aborted = aborted.exclude(winner_operation__in=_CHANGES_NO_METADATA).order_by("occurred_at")
        grouped: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for row in aborted.values(*_OF_A_CONFLICT)[:_MOST_ABORTED]:
            if row["table_id"] and row["winning_version"] is not None:
                grouped.setdefault((row["table_id"], row["winning_version"]), []).append(row)
        return grouped

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


def exclude_muted_pairs(
    sums: Mapping[int, TableSums], muted: ActiveMutes, now: datetime
) -> dict[int, TableSums]:
    """Return the aborted writes of 24 hours by table, without those of muted statements."""
    left = {table: counts for table, counts in sums.items() if table}
    hidden_sums = sum_pairs(muted.pairs, now - DAY) if muted.pairs else {}
    for table, hidden in hidden_sums.items():
        if counts := left.get(table):
            aborted = counts.aborted - hidden.aborted
            left[table] = TableSums(aborted, 0, counts.wasted_ms - hidden.wasted_ms)
    return left


FoundItems: TypeAlias = tuple[list[AttentionItem], int]
"""The first items of a condition, and how many it has."""
Finder: TypeAlias = Callable[[AttentionRequest, int], FoundItems]
"""Find the items of one condition beyond a threshold."""
