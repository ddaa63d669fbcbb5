"""Aborted writes of the lake since a moment, and in the last 24 hours by table, hour and pair.

Their cost is also known by partition, if a conflict names its partitions.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.db.models import Count, QuerySet, Sum

from lakeui.catalog.access import Person, role_of
from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import Table
from lakeui.catalog.new_rows import add_sums
from lakeui.conflicts.costs import AS_FOUND, sums_since
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict

DAY = timedelta(hours=24)

MOST = 1_000
"""So many aborted writes are counted, the latest of the day."""


_Key = tuple[int | None, str, str, str, str]


@dataclass(frozen=True, slots=True)
class TableSums:
    """The cost of a table's conflicts in the span."""

    aborted: int = 0
    resolved: int = 0
    wasted_ms: int = 0


@dataclass(frozen=True, slots=True)
class CostlyPair:
    """The operations of a conflict, the aborted one first."""

    current: str
    winner: str
    times: int
    wasted_ms: int


@dataclass(slots=True)
class ConflictSums:
    """Conflicts of a span."""

    aborted: int = 0
    resolved: int = 0
    wasted_ms: int = 0
    wasted_bytes: int = 0
    pairs: list[CostlyPair] = field(default_factory=list)


@dataclass(slots=True)
class ConflictsOfDay:
    """Conflicts of the last 24 hours by table, by hour and by pair; `aborted` are all but the resolved ones."""

    since: datetime
    aborted: "ConflictSums"
    by_table: dict[int, TableSums] = field(default_factory=dict)
    aborted_by_hour: dict[int, dict[datetime, int]] = field(default_factory=dict)
    cost_by_hour: dict[tuple[str, datetime], int] = field(default_factory=dict)


def conflict_sums(user: Person, since: datetime) -> ConflictSums:
    """Aborted writes by pair of operations; how many conflicts were resolved."""
    if role_of(user) is None:
        sides = list_aborted_since(user, since).values_list(*AS_FOUND)
        rows = sides.annotate(n=Count("pk"), ms=Sum("wasted_ms"), size=Sum("wasted_bytes"))
        aborted = _sum_aborted({(current, winner): tuple(sums) for current, winner, *sums in rows})
        return replace(aborted, resolved=_count_resolved_since(user, since))
    by_pair, resolved = defaultdict[tuple[str, str], tuple[int, ...]](lambda: (0, 0, 0)), 0
    for operations, sums in sums_since(since).items():
        if operations.kind == Conflict.Kind.RESOLVED:
            resolved += sums[0]
        elif sums[0]:
            pair = (operations.current, operations.winner)
            by_pair[pair] = add_sums(by_pair[pair], sums)
    return replace(_sum_aborted(by_pair), resolved=resolved)


def sums_of_day(user: Person, day: ConflictsOfDay) -> ConflictSums:
    """Return the day's aborted writes with the number of resolved conflicts."""
    return replace(day.aborted, resolved=_count_resolved_since(user, day.since))


def day_of(user: Person, now: datetime) -> ConflictsOfDay:
    """Aborted writes of the last 24 hours, hour by hour."""
    since = now - DAY
    grouped = (
        list_aborted_since(user, since)
        .annotate(hour=UtcHour("occurred_at"))
        .values_list("hour", "table_id", "current_operation", "winner_operation")
        .annotate(n=Count("pk"), ms=Sum("wasted_ms"), size=Sum("wasted_bytes"))
    )
    day, by_pair = ConflictsOfDay(since, ConflictSums()), dict[tuple[str, str], tuple[int, ...]]()
    for hour_text, table, current, winner, *sums in grouped:
        hour, pair, (n, ms, _) = hour_named(hour_text), (current, winner), sums
        by_pair[pair] = add_sums(by_pair.get(pair, (0, 0, 0)), sums)
        before = day.by_table.get(table, TableSums())
        day.by_table[table] = TableSums(before.aborted + n, 0, before.wasted_ms + ms)
        hours = day.aborted_by_hour.setdefault(table, {})
        hours[hour] = hours.get(hour, 0) + n
        cell = (" \N{MULTIPLICATION SIGN} ".join(side or "?" for side in pair), hour)
        day.cost_by_hour[cell] = day.cost_by_hour.get(cell, 0) + ms
    day.aborted = _sum_aborted(by_pair)
    return day


def list_aborted_since(user: Person, since: datetime) -> QuerySet[Conflict]:
    conflicts = visible_conflicts(user).filter(
        occurred_at__gte=since, kind__in=Conflict.ABORTED_KINDS
    )
    return conflicts.order_by()


def _count_resolved_since(user: Person, since: datetime) -> int:
    conflicts = visible_conflicts(user).filter(occurred_at__gte=since, kind=Conflict.Kind.RESOLVED)
    return conflicts.order_by().count()


def _sum_aborted(by_pair: Mapping[tuple[str, str], tuple[int, ...]]) -> ConflictSums:
    """Sum number, milliseconds and bytes of pairs, the costliest pair first."""
    pairs = [CostlyPair(*sides, n, ms) for sides, (n, ms, _) in by_pair.items()]
    pairs.sort(key=lambda pair: (-pair.wasted_ms, -pair.times, pair.current, pair.winner))
    return ConflictSums(
        aborted=sum(pair.times for pair in pairs),
        wasted_ms=sum(pair.wasted_ms for pair in pairs),
        wasted_bytes=sum(size for *_, size in by_pair.values()),
        pairs=pairs,
    )


def sum_pairs(pairs: Collection[int], since: datetime) -> Mapping[int, TableSums]:
    """Return the aborted writes of a few pairs of statements, by table."""
    conflicts = Conflict.objects.filter(
        statement_pair__in=pairs, kind__in=Conflict.ABORTED_KINDS, occurred_at__gte=since
    )
    rows = conflicts.order_by().values_list("statement_pair__table")
    sums = rows.annotate(n=Count("pk"), ms=Sum("wasted_ms"))
    return {table: TableSums(n, 0, wasted_ms) for table, n, wasted_ms in sums}


def add_resolved_counts(
    day: ConflictsOfDay, tables: list[Table], now: datetime
) -> dict[int, TableSums]:
    """Return the day's sums of a few tables, with the number of resolved conflicts."""
    conflicts = conflicts_by_table(tables, now - DAY)
    return {
        table.pk: replace(
            day.by_table.get(table.pk, TableSums()), resolved=conflicts[table.pk]["resolved"]
        )
        for table in tables
    }


def conflicts_by_table(tables: list[Table], since: datetime) -> defaultdict[int, Counter[str]]:
    """Count the conflicts of a few tables, filtered by table first, as the index is ordered."""
    conflicts = Conflict.objects.filter(table__in=tables, occurred_at__gte=since).order_by()
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for pk, kind, n in conflicts.values_list("table_id", "kind").annotate(n=Count("pk")):
        counts[pk]["resolved" if kind == Conflict.Kind.RESOLVED else "aborted"] += n
    return counts


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


def partition_costs(user: Person, since: datetime) -> PartitionCosts:
    """Return the cost of visible conflicts by partition since then, in one query."""
    return costs_by_partition(visible_conflicts(user), since)


def costs_by_partition(conflicts: QuerySet[Conflict], since: datetime) -> PartitionCosts:
    """Return the cost of some conflicts by partition, since then."""
    aborted = conflicts.filter(occurred_at__gte=since, kind__in=Conflict.ABORTED_KINDS)
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
