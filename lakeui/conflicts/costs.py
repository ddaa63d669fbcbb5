"""The cost of conflicts: by pair of operations and by hour, and by day from stored sums.

A month of a busy lake is tens of thousands of conflicts, and a few hundred rows of sums. They are
updated with each stored conflict, in the same transaction.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, TruncDate

from lakeui.catalog.hours import RANGES, TimeRange, column_named
from lakeui.catalog.models import Table
from lakeui.catalog.new_rows import add_sums, add_to
from lakeui.conflicts.models import Conflict, ConflictDay
from lakeui.conflicts.statements.pairs import find_pair, list_fixes

AS_FOUND = (Coalesce("current_operation", Value("")), Coalesce("winner_operation", Value("")))
"""A pair, grouped by computed values.

SQLite then uses the filter's index, instead of scanning all conflicts in the index of pairs.
"""
_COUNTED = ("aborted", "reported", "resolved", "wasted_ms", "wasted_bytes")

_PAIR = ("kind", "current_operation", "winner_operation")
_COUNTED_BY_DAY = ("conflicts", "wasted_ms", "wasted_bytes")
_OF_CONFLICTS = (Count("pk"), Sum("wasted_ms", default=0), Sum("wasted_bytes", default=0))


@dataclass(frozen=True, slots=True)
class PairCost:
    """The operations of two conflicting writes, with this transaction's first, and their cost.

    `wasted_ms` and `wasted_bytes` are of aborted writes.
    """

    current: str
    winner: str
    aborted: int
    reported: int
    resolved: int
    wasted_ms: int
    wasted_bytes: int

    @property
    def conflict_count(self) -> int:
        """The number of conflicts of the two operations."""
        return self.aborted + self.reported + self.resolved


@dataclass(frozen=True, slots=True)
class PairCosts:
    """Every pair, the costliest first, and their sum."""

    pairs: tuple[PairCost, ...]

    @property
    def total(self) -> PairCost:
        """The costs of all pairs together."""
        sums = {name: sum(getattr(pair, name) for pair in self.pairs) for name in _COUNTED}
        return PairCost("", "", **sums)


def cost_by_pair(conflicts: QuerySet[Conflict]) -> PairCosts:
    """Return the cost of these conflicts, in one query on an index of sums."""
    pair = AS_FOUND if conflicts.query.where else ("current_operation", "winner_operation")
    grouped = (
        conflicts.order_by()
        .values_list(*pair, "kind")
        .annotate(n=Count("pk"), ms=Sum("wasted_ms"), size=Sum("wasted_bytes"))
    )
    costs: dict[tuple[str, str], dict[str, int]] = {}
    for current, winner, kind, n, ms, size in grouped:
        cost = costs.setdefault((current, winner), dict.fromkeys(_COUNTED, 0))
        cost[kind] = n
        if kind in Conflict.ABORTED_KINDS:
            cost["wasted_ms"] += ms
            cost["wasted_bytes"] += size
    pairs = [PairCost(current, winner, **cost) for (current, winner), cost in costs.items()]
    pairs.sort(key=lambda pair: (-pair.wasted_ms, -pair.aborted, -pair.resolved, pair.current))
    return PairCosts(tuple(pairs))


def cost_by_column(
    conflicts: QuerySet[Conflict], now: datetime, time_range: TimeRange = RANGES["24h"]
) -> Mapping[tuple[str, datetime], int]:
    """Milliseconds wasted in the range, by pair and by its hours or days."""
    aborted = conflicts.filter(
        occurred_at__gte=time_range.start(now), kind__in=Conflict.ABORTED_KINDS
    ).order_by()
    rows = (
        aborted.annotate(column=time_range.column("occurred_at"))
        .values_list(*AS_FOUND, "column")
        .annotate(ms=Sum("wasted_ms"))
    )
    return {
        (f"{current or '?'} \N{MULTIPLICATION SIGN} {winner or '?'}", column_named(column)): ms
        for current, winner, column, ms in rows
    }


class OperationPair(NamedTuple):
    """The operations of two conflicting writes, and how the conflict ended."""

    kind: str
    current: str
    winner: str


Sums = tuple[int, ...]
"""How many, milliseconds wasted, bytes wasted."""


def keep(**fields: Any) -> Conflict:  # noqa: ANN401 - as the model has them
    """Write a conflict down, and count it."""
    with transaction.atomic():
        row = Conflict(**fields)
        row.statement_pair, row.fixes = find_pair(row), ",".join(list_fixes(row))
        row.save(force_insert=True)
        day = row.occurred_at.astimezone(UTC).date()
        one = {"conflicts": 1, "wasted_ms": row.wasted_ms, "wasted_bytes": row.wasted_bytes}
        add_to(ConflictDay, _key(day, (getattr(row, name) for name in _PAIR)), one)
    return row


def count_out(table: Table) -> None:
    """Take a table's conflicts out of the sums: called before its rows go."""
    for day, *pair, n, ms, size in _sum_by_day(Conflict.objects.filter(table=table)):
        add_to(
            ConflictDay, _key(day, pair), dict(zip(_COUNTED_BY_DAY, (-n, -ms, -size), strict=True))
        )


def recount() -> None:
    """Recompute all days from the stored conflicts."""
    sums_by_day = _sum_by_day(Conflict.objects.all())
    with transaction.atomic():
        ConflictDay.objects.all().delete()
        ConflictDay.objects.bulk_create(
            ConflictDay(**_key(day, pair), conflicts=n, wasted_ms=ms, wasted_bytes=size)
            for day, *pair, n, ms, size in sums_by_day
        )


def sums_since(since: datetime) -> dict[OperationPair, Sums]:
    """Return sums over all tables: whole days from the sums, the rest of the first one by one."""
    begin = _day_after(since)
    days = ConflictDay.objects.filter(day__gte=begin.date()).order_by().values_list(*_PAIR)
    rest = Conflict.objects.filter(
        kind__in=Conflict.Kind.values, occurred_at__gte=since, occurred_at__lt=begin
    )
    sums_by_pair: defaultdict[OperationPair, Sums] = defaultdict(lambda: (0, 0, 0))
    for rows in (
        days.annotate(*(Sum(name, default=0) for name in _COUNTED_BY_DAY)),
        rest.order_by().values_list("kind", *AS_FOUND).annotate(*_OF_CONFLICTS),
    ):
        for kind, current, winner, *sums in rows:
            pair = OperationPair(kind, current, winner)
            sums_by_pair[pair] = add_sums(sums_by_pair[pair], sums)
    return sums_by_pair


def _sum_by_day(conflicts: QuerySet[Conflict]) -> list[tuple[Any, ...]]:
    days = conflicts.order_by().annotate(day=TruncDate("occurred_at", tzinfo=UTC))
    return list(days.values_list("day", *_PAIR).annotate(*_OF_CONFLICTS))


def _key(day: date, pair: Iterable[str]) -> dict[str, object]:
    return {"day": day} | dict(zip(_PAIR, pair, strict=True))


def _day_after(moment: datetime) -> datetime:
    """Return the first midnight at or after it."""
    day = moment.astimezone(UTC).date()
    midnight = datetime.combine(day, time(), UTC)
    return midnight if midnight == moment else midnight + timedelta(days=1)
