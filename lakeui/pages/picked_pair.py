"""One cell of the matrix: the latest conflicts of its pair, in words, and where all of them are."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.urls import reverse

from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.meetings import Meetings
from lakeui.conflicts.isolation.observed import Pair
from lakeui.conflicts.isolation.pairs import PairCell
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.kinds import statement_kind

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PickedPair:
    """The latest few that were lost and absorbed; `address` lists them all."""

    lost: tuple[Conflict, ...]
    absorbed: tuple[Conflict, ...]
    address: str


def picked_pair(
    table: Table, cell: PairCell, meetings: Meetings, pairs: Sequence[Pair]
) -> PickedPair:
    """The conflicts of a cell, found by the operations that its kinds went by."""
    names = [
        (pair.current_operation, pair.winner_operation)
        for pair in pairs
        if statement_kind(pair.current_operation) == cell.current
        and statement_kind(pair.winner_operation) == cell.winner
    ]
    found = table.conflicts.filter(
        occurred_at__gte=meetings.since,
        current_operation__in={current for current, _ in names},
        winner_operation__in={winner for _, winner in names},
    )
    query = {"table": table.pk} | ({"pair": ",".join(names[0])} if len(names) == 1 else {})
    return PickedPair(
        _latest(found.exclude(kind=Conflict.Kind.ABSORBED)),
        _latest(found.filter(kind=Conflict.Kind.ABSORBED)),
        f"{reverse('conflict-list')}?{urlencode(query)}",
    )


def _latest(conflicts: QuerySet[Conflict]) -> tuple[Conflict, ...]:
    how = KeyTextTransform("how", "facts")
    rows = conflicts.defer("facts").annotate(how=how).order_by("-occurred_at", "-id")
    return tuple(rows[:_SHOWN])
