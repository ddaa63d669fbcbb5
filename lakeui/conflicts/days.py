"""Conflicts of each day, by end and by pair, with their cost.

A month of a busy lake is tens of thousands of conflicts, and a few hundred rows here. They are
updated
with each stored conflict, in the same transaction.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate

from lakeui.catalog.models import Table
from lakeui.catalog.stored_sums import add_sums, add_to
from lakeui.conflicts.costs import AS_FOUND
from lakeui.conflicts.models import Conflict, ConflictDay

_PAIR = ("kind", "current_operation", "winner_operation")
_COUNTED = ("conflicts", "wasted_ms", "wasted_bytes")
_OF_CONFLICTS = (Count("pk"), Sum("wasted_ms", default=0), Sum("wasted_bytes", default=0))


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
        row = Conflict.objects.create(**fields)
        day = row.occurred_at.astimezone(UTC).date()
        one = {"conflicts": 1, "wasted_ms": row.wasted_ms, "wasted_bytes": row.wasted_bytes}
        add_to(ConflictDay, _key(day, (getattr(row, name) for name in _PAIR)), one)
    return row


def count_out(table: Table) -> None:
    """Take a table's conflicts out of the sums: called before its rows go."""
    for day, *pair, n, ms, size in _sum_by_day(Conflict.objects.filter(table=table)):
        add_to(ConflictDay, _key(day, pair), dict(zip(_COUNTED, (-n, -ms, -size), strict=True)))


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
        days.annotate(*(Sum(name, default=0) for name in _COUNTED)),
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
