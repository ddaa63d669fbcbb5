"""The cost of aborted writes by partition, if a conflict names its partitions."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from lakeui.catalog.access import Person
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict

DAY = timedelta(hours=24)
MOST = 1_000
"""So many aborted writes are counted, the latest of the day."""


_Key = tuple[int | None, str, str, str, str]


@dataclass(frozen=True, slots=True)
class PartitionCost:
    """The cost of a partition; `partition` is empty if the conflict names none."""

    table_id: int | None
    table: str
    partition: str
    current: str
    winner: str
    times: int
    wasted_ms: int


@dataclass(frozen=True, slots=True)
class PartitionCosts:
    """The costliest first. A write with conflicts in several partitions counts in each."""

    rows: list[PartitionCost]
    looked_at: int
    is_cut: bool


def partition_costs(user: Person, now: datetime) -> PartitionCosts:
    """Return the cost of visible conflicts by partition in 24 hours, in one query."""
    return costs_by_partition(visible_conflicts(user), now)


def costs_by_partition(conflicts: QuerySet[Conflict], now: datetime) -> PartitionCosts:
    """Return the cost of some conflicts by partition, over the last 24 hours."""
    aborted = conflicts.filter(occurred_at__gte=now - DAY, kind__in=Conflict.ABORTED_KINDS)
    selected = aborted.order_by("-occurred_at", "-id").values_list(
        "table_id",
        "table__name",
        "current_operation",
        "winner_operation",
        "partitions",
        "wasted_ms",
    )[: MOST + 1]
    times: Counter[_Key] = Counter()
    cost: Counter[_Key] = Counter()
    rows = list(selected)
    for table_id, table, current, winner, partitions, wasted_ms in rows[:MOST]:
        for partition in _iter_partition_names(partitions):
            key = (table_id, table or "", partition, current, winner)
            times[key] += 1
            cost[key] += wasted_ms
    costs = [
        PartitionCost(table_id, table, partition, current, winner, n, cost[key])
        for key, n in times.items()
        for table_id, table, partition, current, winner in [key]
    ]
    costs.sort(
        key=lambda partition_cost: (
            -partition_cost.wasted_ms,
            partition_cost.table,
            partition_cost.partition,
        )
    )
    return PartitionCosts(costs, len(rows[:MOST]), len(rows) > MOST)


def _iter_partition_names(partitions: object) -> Iterable[str]:
    """Return names as recorded texts, each once: event_date=2026-11-19."""
    listed = partitions if isinstance(partitions, list) else []
    named = (
        partition if isinstance(partition, str) else json.dumps(partition) for partition in listed
    )
    return dict.fromkeys(named) or ("",)
