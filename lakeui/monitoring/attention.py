"""What needs a person, worst first: facts, for the first page and for REST. Pages find the words.

Each check asks a fixed number of queries and reads a few rows; how many there are beyond those is
counted. What was muted is left out of both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lakeui.catalog.access import Person
from lakeui.monitoring import (
    conflict_attention,
    discovery_attention,
    job_attention,
    table_attention,
)
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, Finder
from lakeui.monitoring.checks import ORDER, AttentionCheck
from lakeui.monitoring.mutes import ActiveMutes
from lakeui.monitoring.recent_conflicts import ConflictsOfDay

FINDERS: tuple[Finder, ...] = (
    *table_attention.FINDERS,
    *conflict_attention.FINDERS,
    *job_attention.FINDERS,
    *discovery_attention.FINDERS,
)


@dataclass(frozen=True, slots=True)
class Attention:
    """The first items of each check, in the order of checks; and how many there are of each."""

    items: list[AttentionItem]
    counts: Mapping[AttentionCheck, int]

    @property
    def count(self) -> int:
        return sum(self.counts.values())


def attention(
    user: Person, now: datetime, day: ConflictsOfDay, muted: ActiveMutes, most: int
) -> Attention:
    """Everything that is told now, at most so many items of each check."""
    asked = AttentionRequest(user, now, day, muted, most)
    by_check = [of_check for _, find in FINDERS for of_check in find(asked)]
    by_check.sort(key=lambda of_check: ORDER.index(of_check[0]))
    counts = {check: count for check, count, _ in by_check if count}
    return Attention([item for _, _, some in by_check for item in some], counts)
