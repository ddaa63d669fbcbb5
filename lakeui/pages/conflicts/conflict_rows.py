"""The rows touched by both sides, as a table: keys first, with each side's change."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError

from lakeui.catalog.command_tables import Reader
from lakeui.catalog.previews import is_waiting
from lakeui.catalog.reads import TooManyReadsError
from lakeui.conflicts.conflict_detail.sides import BothSides, ask_for_rows, find_shared_rows
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.task_names import NO_WORKER_ASKED

_COLUMNS = 6
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")
_LITERAL = re.compile(r"-?\d+(\.\d+)?|'[^']*'|TRUE|FALSE|NULL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SharedRow:
    """One row: its position, some values, and either side's change."""

    position: int
    values: tuple[tuple[str | None, bool], ...]  # each with whether it is a number
    here: str
    there: str


@dataclass(frozen=True, slots=True)
class RowsView:
    """The page's view of the rows: `has_positions` if they can be read, `read` the values."""

    has_positions: bool
    version: int | None
    sample_count: int
    is_sample: bool
    read: ConflictRows | None
    waits: bool
    columns: tuple[Mapping[str, Any], ...]
    rows: tuple[SharedRow, ...]
    omitted: int


@require_POST
@login_required
def conflict_rows(request: HttpRequest, pk: int) -> HttpResponse:
    """Has a worker read the rows; the conflict's page shows them."""
    visible = visible_conflicts(request.user)
    return _ask(request, get_object_or_404(visible.select_related("table"), pk=pk))


def rows_view(conflict: Conflict, sides: BothSides) -> RowsView:
    """Return the rows as read; without them, whether they can be read."""
    shared = find_shared_rows(conflict)
    read = ConflictRows.objects.filter(conflict=conflict).first() if shared else None
    chosen = _choose_columns(read.columns, conflict, sides) if read else ()
    return RowsView(
        has_positions=shared is not None,
        version=shared.version if shared else None,
        sample_count=len(shared.positions) if shared else 0,
        is_sample=shared is not None and len(shared.positions) < (conflict.row_count or 0),
        read=read,
        waits=read is not None and is_waiting(read),
        columns=tuple(_column(read.columns[n]) for n in chosen) if read else (),
        rows=tuple(_rows(read, chosen, conflict, sides)) if read else (),
        omitted=len(read.columns) - len(chosen) + read.omitted_columns if read else 0,
    )


def _ask(request: HttpRequest, conflict: Conflict) -> HttpResponse:
    try:
        ask_for_rows(conflict, Reader(request.user).account)
    except TooManyReadsError as error:
        messages.error(request, str(error))
    except (OperationalError, OSError):
        messages.error(request, NO_WORKER_ASKED)
    return redirect(f"{reverse('conflict', args=[conflict.pk])}#overlap")


def _choose_columns(
    columns: Sequence[Mapping[str, Any]], conflict: Conflict, sides: BothSides
) -> tuple[int, ...]:
    """Return the first column, columns of conditions, assignments and layout, then others."""
    asked = f"{sides.winner.predicate} {sides.current.predicate} {conflict.order_column}"
    words = [*_words(asked), *_assignments(conflict)]
    names = [str(column.get("name", "")) for column in columns]
    first = [0, *(n for n, name in enumerate(names) if name in words)]
    kept = list(dict.fromkeys([*first, *range(len(names))]))[:_COLUMNS]
    return tuple(sorted(n for n in kept if n < len(names)))


def _rows(
    read: ConflictRows, chosen: Sequence[int], conflict: Conflict, sides: BothSides
) -> list[SharedRow]:
    names = [str(column.get("name", "")) for column in read.columns]
    rows = []
    for position, values in zip(read.positions, read.rows, strict=False):
        row = dict(zip(names, values, strict=False))
        here = _did(conflict.current_operation, _assignments(conflict), row, "")
        there = _did(conflict.winner_operation, {}, row, sides.winner.predicate)
        shown = tuple((values[n], is_number(read.columns[n])) for n in chosen)
        rows.append(SharedRow(position, shown, here, there))
    return rows


def _column(column: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**column, "is_number": is_number(column)}


def is_number(column: Mapping[str, Any]) -> bool:
    """Whether a column's values are right-aligned numbers."""
    return str(column.get("type", "")).startswith(_NUMBERS)


def _did(
    operation: str, assignments: Mapping[str, str], row: Mapping[str, str | None], predicate: str
) -> str:
    """Discount 0.10 → 0.15; deleted, customer_id = 81204."""
    changes = [
        f"{name} {_display_value(row[name])} → {_value(expression)}"
        for name, expression in assignments.items()
        if name in row
    ]
    if changes:
        return ", ".join(changes)
    verb = {"DELETE": "deleted", "UPDATE": "changed", "MERGE": "changed"}.get(
        operation.upper(), "rewritten"
    )
    because = [f"{name} = {_display_value(row[name])}" for name in _words(predicate) if name in row]
    return ", ".join([verb, *because[:2]])


def _assignments(conflict: Conflict) -> Mapping[str, str]:
    parameters = conflict.job.parameters if conflict.job else None
    assignments = parameters.get("assignments") if isinstance(parameters, dict) else None
    return {str(k): str(v) for k, v in assignments.items()} if isinstance(assignments, dict) else {}


def _value(expression: str) -> str:
    text = expression.strip()
    return text.strip("'") if _LITERAL.fullmatch(text) else text


def _display_value(value: str | None) -> str:
    return "null" if value is None else value


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)))
