"""Possible conflicts: the checker's verdicts for a table, beside observed ones; settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from engine.conflict_facts import Verdict
from engine.errors import EngineError
from engine.protocol.properties import RESOLUTION_PROPERTY
from lakeui.catalog.access import may
from lakeui.catalog.models import Table
from lakeui.catalog.schema_rows import top_names
from lakeui.conflicts.isolation.effect import PROMISES, effect_of, impact_of
from lakeui.conflicts.isolation.overlaps import (
    DEFAULT_DAYS,
    MAX_VERSIONS,
    OverlapRow,
    Overlaps,
    latest_between,
    overlap_rows,
    overlaps_of,
)
from lakeui.conflicts.isolation.pairs import (
    COLUMNS,
    ROWS,
    ObservedPair,
    PairCell,
    list_observed_pairs,
    table_matrix,
)
from lakeui.conflicts.isolation.reordering import (
    OutOfOrderRow,
    OutOfOrderVersions,
    find_out_of_order,
    rows_of_versions,
)
from lakeui.conflicts.isolation.settings import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    Proposal,
    proposal_of,
    propose_setting,
    resolves_enablement,
    settings_history,
)
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.text import DELETE, INSERT, MERGE, UPDATE, statement_kind
from lakeui.jobs.requests import request_job
from lakeui.jobs.streams import streams_reading
from lakeui.pages.exports import export
from lakeui.pages.listing import find_page
from lakeui.pages.table_head import table_head, visible_table

RULE_TEXTS = {
    Verdict.NEVER: "No check finds a conflict, regardless of the rows. Both commit.",
    Verdict.SAME_ROW: "Each file that both change is compared row by row: the positions that the later "
    "write deletes with the positions that the earlier write deleted, without rows that "
    "were deleted before both. If no row is in common, the deletion vectors are merged "
    "and the later write commits. If a row is in common, the later write is aborted.",
    Verdict.SAME_FILES: "Conflicts are decided at file level here. The later write is aborted, regardless of the "
    "rows, if the earlier write removed or rewrote a file that it read or removed, or added a "
    "file that it should have read. A DELETE can commit after a DELETE that removed the whole "
    "file.",
    Verdict.ALWAYS: "A metadata change aborts every write that started before it, regardless of its "
    "rows. On a table with an identity column, an INSERT and a MERGE that inserts change "
    "the metadata.",
}
APPEND_CAVEAT = (
    "This is true while no other write has read the append. After a later UPDATE, DELETE or "
    "MERGE may have read its rows, a write that did not see them is aborted."
)
REORDERED, OVERLAPS = "reordered", "overlaps"
_PAGE_SIZE, _CHUNK, MAX_LISTED = 25, 500, 10_000
_SETTINGS_SHOWN = 8
_REORDERED_SHOWN = 3
_EXPORTED: Mapping[str, Callable[[OverlapRow], Any]] = {
    "verdict": lambda row: str(row.verdict),
    "version": lambda row: row.version,
    "operation": lambda row: row.operation,
    "user": lambda row: row.user_name,
    "winning_version": lambda row: row.winning_version,
    "winner_operation": lambda row: row.winner_operation,
    "winner_user": lambda row: row.winner_user_name,
    "at": lambda row: row.at,
    "conflict_id": lambda row: row.conflict_id,
}

_REORDERED_EXPORTED: Mapping[str, Callable[[OutOfOrderRow], Any]] = {
    "version": lambda row: row.order.version,
    "append_versions": lambda row: " ".join(map(str, row.order.appends)),
    "operation": lambda row: row.commit.operation if row.commit else "",
    "predicate": lambda row: row.commit.predicate if row.commit else "",
    "is_known": lambda row: row.order.is_known,
    "rows_at_most": lambda row: row.rows_at_most,
    "at": lambda row: row.at,
}

MAX_CLUSTERING_COLUMNS = 4
COLUMNS_SUGGESTED = 200
_SWITCHES = (("vectors", VECTORS), ("row_tracking", ROW_TRACKING))

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WantedSettings:
    """The requested settings, and their form. `problem` is an impossible request, in words."""

    proposal: Proposal
    level: str
    vectors: bool
    row_tracking: bool
    clustering: str
    problem: str


@login_required
def isolation(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Render the settings in the address; a POST applies them by a job."""
    table = visible_table(request, pk)
    proposed = parse_wanted_settings(request, table)
    if request.method == "POST":
        return _set(request, table, proposed)
    overlaps = overlaps_of(table)
    if "export" in request.GET:
        return _export(request, table, overlaps)
    return render(request, "tables/isolation.html", _context(request, table, proposed, overlaps))


def _set(request: HttpRequest, table: Table, proposed: WantedSettings) -> HttpResponse:
    if not may(request.user, "maintain", table):
        msg = f"You need the role maintainer on {table.name} to change its settings."
        raise PermissionDenied(msg)
    problem = proposed.problem
    if not problem and not proposed.proposal:
        problem = "The table already has these settings."
    if not problem:
        kind, parameters = proposed.proposal.job
        try:
            job = request_job(
                table=table,
                kind=kind,
                parameters=parameters,
                requested_by=request.user,  # type: ignore[arg-type]  # signed in
                reason=request.POST.get("reason", "")[:2000],
            )
        except EngineError as error:
            problem = str(error)
        else:
            messages.success(request, "Queued.")
            return redirect("job", job.pk)
    context = _context(request, table, proposed, overlaps_of(table)) | {
        "problem": problem,
        "reason": request.POST.get("reason", "")[:2000],
    }
    return render(request, "tables/isolation.html", context, status=400)


def _export(request: HttpRequest, table: Table, overlaps: Overlaps) -> HttpResponseBase:
    """Export all out-of-order versions if they are shown, else all overlaps of the picked pair."""
    file_format = request.GET["export"]
    if request.GET.get("show") == REORDERED:
        rows = rows_of_versions(table, find_out_of_order(table, overlaps).versions)
        return export(rows, _REORDERED_EXPORTED, file_format, f"{table.name}-out-of-order")
    current, _, winner = request.GET.get("cell", "").partition("|")
    every = _all_overlaps(table, overlaps, current, winner)
    return export(every, _EXPORTED, file_format, f"{table.name}-overlaps")


def _all_overlaps(
    table: Table, overlaps: Overlaps, current: str, winner: str
) -> Iterator[OverlapRow]:
    matching = overlaps.iter_pair(current, winner)
    while some := list(islice(matching, _CHUNK)):
        yield from overlap_rows(table, some)


def _context(
    request: HttpRequest, table: Table, proposed: WantedSettings, overlaps: Overlaps
) -> dict[str, Any]:
    pairs, out_of_order = list_observed_pairs(table), find_out_of_order(table, overlaps)
    cells = table_matrix(table, propose_setting(table, proposed.proposal), overlaps, pairs)
    return {
        "table": table,
        "head": table_head(request, table, "isolation"),
        "columns": COLUMNS,
        "matrix": [(row, [cell for cell in cells if cell.current == row]) for row in ROWS],
        "overlaps": overlaps,
        "sums": _sums(cells, pairs, overlaps),
        "days": DEFAULT_DAYS,
        "max_versions": MAX_VERSIONS,
        "max_listed": MAX_LISTED,
        "wanted": proposed,
        "promises": PROMISES,
        "resolves_enablement": resolves_enablement(table),
        "resolution_property": RESOLUTION_PROPERTY,
        "columns_of_table": top_names(table)[:COLUMNS_SUGGESTED],
        "column_count": len(top_names(table)),
        "settings_changes": settings_history(table, overlaps, _SETTINGS_SHOWN),
        "rule_texts": RULE_TEXTS,
        "twin": _twin(request, table),
        **_pair_context(request, table, cells, overlaps, pairs),
        **_order_context(request, table, out_of_order),
        **_impact(request, table, proposed, overlaps, pairs, out_of_order),
    }


def _impact(
    request: HttpRequest,
    table: Table,
    proposed: WantedSettings,
    overlaps: Overlaps,
    pairs: Sequence[ObservedPair],
    out_of_order: OutOfOrderVersions,
) -> dict[str, Any]:
    proposal = proposed.proposal
    if not proposal:
        return {}
    readers = streams_reading(table, request.user)
    return {
        "impact": impact_of(table, proposal.properties, proposal.clustering, readers),
        "forecast": effect_of(table, proposal, overlaps, pairs, out_of_order),
    }


def _pair_context(
    request: HttpRequest,
    table: Table,
    cells: Sequence[PairCell],
    overlaps: Overlaps,
    pairs: Sequence[ObservedPair],
) -> dict[str, Any]:
    current, _, winner = request.GET.get("cell", "").partition("|")
    cell = next(
        (
            candidate
            for candidate in cells
            if (candidate.current, candidate.winner) == (current, winner)
        ),
        None,
    )
    if cell is None:
        return {}
    context: dict[str, Any] = {
        "picked": cell,
        "pair": load_pair_conflicts(table, cell, overlaps, pairs),
        "caveat": APPEND_CAVEAT if _is_behind_append(cell) else "",
    }
    if request.GET.get("show") == OVERLAPS:
        page = find_page(
            request, Paginator(latest_between(overlaps, current, winner, MAX_LISTED), _PAGE_SIZE)
        )
        context |= {"paged": page, "overlap_rows": _rows_of_page(table, page)}
    return context


def _is_behind_append(cell: PairCell) -> bool:
    changes = cell.current in (UPDATE, DELETE, MERGE)
    return changes and cell.winner == INSERT and cell.verdict is Verdict.NEVER


def _rows_of_page(table: Table, page: Any) -> list[OverlapRow]:  # noqa: ANN401 - a page of overlaps
    return overlap_rows(table, list(page.object_list))


def _order_context(
    request: HttpRequest, table: Table, out_of_order: OutOfOrderVersions
) -> dict[str, Any]:
    context: dict[str, Any] = {"out_of_order": out_of_order}
    if request.GET.get("show") != REORDERED:
        shown = out_of_order.versions[:_REORDERED_SHOWN]
        return context | {"out_of_order_rows": rows_of_versions(table, shown)}
    page = find_page(request, Paginator(out_of_order.versions, _PAGE_SIZE))
    rows = rows_of_versions(table, list(page.object_list))
    return context | {"out_of_order_rows": rows, "out_of_order_page": page}


def _sums(
    cells: Sequence[PairCell], pairs: Sequence[ObservedPair], overlaps: Overlaps
) -> dict[str, int]:
    return {
        "overlaps": sum(cell.overlap_count for cell in cells) + overlaps.elsewhere,
        "aborted": sum(pair.aborted + pair.reported for pair in pairs),
        "resolved": sum(pair.resolved for pair in pairs),
    }


def _twin(request: HttpRequest, table: Table) -> str:
    """Return the address of this page's JSON."""
    below, show = f"/api/v1/tables/{table.pk}", request.GET.get("show")
    current, _, winner = request.GET.get("cell", "").partition("|")
    if show == REORDERED:
        return f"{below}/reordered/"
    if show == OVERLAPS and {current, winner} <= {*COLUMNS}:
        return f"{below}/overlaps/?{urlencode({'current': current, 'winner': winner})}"
    names = {"level": "level", "vectors": "deletion_vectors", "row_tracking": "row_tracking"}
    asked = {names[name]: request.GET[name] for name in names if request.GET.get(name)}
    if "clustering" in request.GET:
        asked["clustering_columns"] = request.GET["clustering"]
    return f"{below}/isolation/?{urlencode(asked)}" if asked else f"{below}/isolation/"


@dataclass(frozen=True, slots=True)
class PairConflicts:
    """The latest aborted and resolved conflicts; `address` lists them all."""

    aborted: tuple[Conflict, ...]
    resolved: tuple[Conflict, ...]
    address: str


def load_pair_conflicts(
    table: Table, cell: PairCell, overlaps: Overlaps, pairs: Sequence[ObservedPair]
) -> PairConflicts:
    """Load the conflicts of a cell, by the operations of its kinds."""
    names = [
        (pair.current_operation, pair.winner_operation)
        for pair in pairs
        if statement_kind(pair.current_operation) == cell.current
        and statement_kind(pair.winner_operation) == cell.winner
    ]
    conflicts = table.conflicts.filter(
        occurred_at__gte=overlaps.since,
        current_operation__in={current for current, _ in names},
        winner_operation__in={winner for _, winner in names},
    )
    query = {"table": table.pk} | ({"pair": ",".join(names[0])} if len(names) == 1 else {})
    return PairConflicts(
        _latest(conflicts.exclude(kind=Conflict.Kind.RESOLVED)),
        _latest(conflicts.filter(kind=Conflict.Kind.RESOLVED)),
        f"{reverse('conflict-list')}?{urlencode(query)}",
    )


def _latest(conflicts: QuerySet[Conflict]) -> tuple[Conflict, ...]:
    how = KeyTextTransform("how", "facts")
    rows = conflicts.defer("facts").annotate(how=how).order_by("-occurred_at", "-id")
    return tuple(rows[:_SHOWN])


def parse_wanted_settings(request: HttpRequest, table: Table) -> WantedSettings:
    """Return the settings in the address; the table's own if there are none.

    Raises:
        Http404: there is no such level or switch.
    """
    level = request.GET.get("level", "")
    switches = {name: request.GET.get(name, "") for name, _ in _SWITCHES}
    if (level and level not in PROMISES) or any(
        text not in ("", "true", "false") for text in switches.values()
    ):
        msg = "Unknown setting."
        raise Http404(msg)
    asked = {LEVEL: level} | {prop: switches[name] for name, prop in _SWITCHES}
    columns, problem = _columns(request, table)
    properties = {name: value for name, value in asked.items() if value}
    now = ", ".join(table.clustering_columns)
    return WantedSettings(
        proposal=proposal_of(table, properties, columns),
        level=level or table.isolation_level,
        vectors=_switch(switches["vectors"], table.deletion_vectors),
        row_tracking=_switch(switches["row_tracking"], table.row_tracking),
        clustering=request.GET.get("clustering", now)[:500],
        problem=problem,
    )


def _switch(text: str, now: bool) -> bool:
    return text == "true" if text else now


def _columns(request: HttpRequest, table: Table) -> tuple[tuple[str, ...] | None, str]:
    """Return the columns to cluster by, None without a request; and the problem with them."""
    if "clustering" not in request.GET:
        return None, ""
    names = tuple(n for n in (part.strip() for part in request.GET["clustering"].split(",")) if n)
    top = top_names(table)
    unknown = [name for name in names if name not in top]
    if unknown:
        return None, f"There is no top-level column {unknown[0][:100]}."
    if len(names) > MAX_CLUSTERING_COLUMNS or len(set(names)) < len(names):
        return None, f"Use at most {MAX_CLUSTERING_COLUMNS} different columns."
    return names, ""
