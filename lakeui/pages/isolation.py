"""Who can make whom lose: the checker's own answer for a table, beside what was seen; and its settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.paginator import EmptyPage, PageNotAnInteger, Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from engine.conflicts.matrix import ALWAYS, NEVER, SAME_FILES, SAME_ROW
from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.forecast import forecast
from lakeui.conflicts.isolation.level_impact import PROMISES, impact_of
from lakeui.conflicts.isolation.meetings import (
    DEFAULT_DAYS,
    MAX_VERSIONS,
    Meetings,
    latest_between,
    meetings_of,
)
from lakeui.conflicts.isolation.met_rows import MetRow, met_rows
from lakeui.conflicts.isolation.observed import Pair, observed_pairs
from lakeui.conflicts.isolation.pairs import COLUMNS, ROWS, PairCell, table_matrix
from lakeui.conflicts.isolation.proposal import setting_under
from lakeui.conflicts.isolation.reordered import ReorderedVersions, Told, reordered_versions, told
from lakeui.conflicts.isolation.settings_history import settings_history
from lakeui.jobs.reading_streams import streams_reading
from lakeui.jobs.requests import request_job
from lakeui.pages.exports import export
from lakeui.pages.picked_pair import picked_pair
from lakeui.pages.settings_form import WantedSettings, column_names, wanted_settings
from lakeui.pages.table_head import table_head, visible_table

RULE_TEXTS = {
    NEVER: "No check finds the two meeting, whatever rows they touch: both commit, in either order.",
    SAME_ROW: "Each file that both touch is compared by rows: the positions that the later write "
    "stages, those that the earlier one removed, less what was gone before both. Nothing in common: "
    "the deletion vectors are merged and the later commit goes on. One row in common: it loses.",
    SAME_FILES: "Files decide here: if the later write read or removed a file that the earlier one "
    "added to or rewrote, it loses, whichever rows they touched.",
    ALWAYS: "A change of metadata fails every write that began before it, whatever it touches.",
}
REORDERED, MEETINGS = "reordered", "meetings"
_PAGE_SIZE, _CHUNK, MAX_LISTED = 25, 500, 10_000
_SETTINGS_SHOWN = 8
_REORDERED_SHOWN = 3
_EXPORTED: Mapping[str, Callable[[MetRow], Any]] = {
    "outcome": lambda row: row.outcome,
    "version": lambda row: row.version,
    "operation": lambda row: row.operation,
    "user": lambda row: row.user_name,
    "met_version": lambda row: row.winning_version,
    "met_operation": lambda row: row.winner_operation,
    "met_user": lambda row: row.winner_user_name,
    "at": lambda row: row.at,
    "conflict_id": lambda row: row.conflict_id,
}

_REORDERED_EXPORTED: Mapping[str, Callable[[Told], Any]] = {
    "version": lambda row: row.pair.version,
    "last_version": lambda row: row.pair.last,
    "later_version": lambda row: row.pair.later,
    "operation": lambda row: row.append.operation if row.append else "",
    "later_operation": lambda row: row.later.operation if row.later else "",
    "later_predicate": lambda row: row.later.predicate if row.later else "",
    "is_known": lambda row: row.pair.is_known,
    "rows_at_most": lambda row: row.rows_at_most,
    "at": lambda row: row.at,
}


@login_required
def isolation(request: HttpRequest, pk: int) -> HttpResponseBase:
    """What is asked for stands in the address; POST has it done by a job."""
    table = visible_table(request, pk)
    wanted = wanted_settings(request, table)
    if request.method == "POST":
        return _set(request, table, wanted)
    meetings = meetings_of(table)
    if "export" in request.GET:
        return _export(request, table, meetings)
    return render(request, "tables/isolation.html", _context(request, table, wanted, meetings))


def _set(request: HttpRequest, table: Table, wanted: WantedSettings) -> HttpResponse:
    if not may(request.user, "maintain", table):
        msg = f"The settings of {table.name} need the role maintainer there."
        raise PermissionDenied(msg)
    problem = wanted.problem
    if not problem and not wanted.proposal:
        problem = "The table has these settings already."
    elif not problem and request.POST.get("confirm", "").strip() != table.name:
        problem = f"Type {table.name} to confirm. Nothing was queued."
    if not problem:
        kind, parameters = wanted.proposal.job
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
    context = _context(request, table, wanted, meetings_of(table)) | {
        "problem": problem,
        "reason": request.POST.get("reason", "")[:2000],
    }
    return render(request, "tables/isolation.html", context, status=400)


def _export(request: HttpRequest, table: Table, meetings: Meetings) -> HttpResponseBase:
    """All reordered versions where they are shown, else all meetings of the picked pair."""
    file_format = request.GET["export"]
    if request.GET.get("show") == REORDERED:
        pairs = told(table, reordered_versions(table, meetings).found)
        return export(pairs, _REORDERED_EXPORTED, file_format, f"{table.name}-reordered")
    current, _, winner = request.GET.get("cell", "").partition("|")
    rows = _all_met(table, meetings, current, winner)
    return export(rows, _EXPORTED, file_format, f"{table.name}-meetings")


def _all_met(table: Table, meetings: Meetings, current: str, winner: str) -> Iterator[MetRow]:
    found = meetings.between(current, winner)
    while some := list(islice(found, _CHUNK)):
        yield from met_rows(table, some)


def _context(
    request: HttpRequest, table: Table, wanted: WantedSettings, meetings: Meetings
) -> dict[str, Any]:
    pairs, reordered = observed_pairs(table), reordered_versions(table, meetings)
    cells = table_matrix(table, setting_under(table, wanted.proposal), meetings, pairs)
    return {
        "table": table,
        "head": table_head(request, table, "isolation"),
        "columns": COLUMNS,
        "matrix": [(row, [cell for cell in cells if cell.current == row]) for row in ROWS],
        "meetings": meetings,
        "sums": _sums(cells, pairs, meetings),
        "days": DEFAULT_DAYS,
        "max_versions": MAX_VERSIONS,
        "max_listed": MAX_LISTED,
        "wanted": wanted,
        "promises": PROMISES,
        "columns_of_table": column_names(table),
        "settings_changes": settings_history(table, meetings, _SETTINGS_SHOWN),
        "rule_texts": RULE_TEXTS,
        "twin": _twin(request, table),
        **_picked(request, table, cells, meetings, pairs),
        **_reordered(request, table, reordered),
        **_impact(request, table, wanted, meetings, pairs, reordered),
    }


def _impact(
    request: HttpRequest,
    table: Table,
    wanted: WantedSettings,
    meetings: Meetings,
    pairs: Sequence[Pair],
    reordered: ReorderedVersions,
) -> dict[str, Any]:
    proposal = wanted.proposal
    if not proposal:
        return {}
    readers = streams_reading(table, request.user)
    return {
        "impact": impact_of(table, proposal.properties, proposal.clustering, readers),
        "forecast": forecast(table, proposal, meetings, pairs, reordered),
    }


def _picked(
    request: HttpRequest,
    table: Table,
    cells: Sequence[PairCell],
    meetings: Meetings,
    pairs: Sequence[Pair],
) -> dict[str, Any]:
    current, _, winner = request.GET.get("cell", "").partition("|")
    cell = next((each for each in cells if (each.current, each.winner) == (current, winner)), None)
    if cell is None:
        return {}
    found: dict[str, Any] = {"picked": cell, "pair": picked_pair(table, cell, meetings, pairs)}
    if request.GET.get("show") == MEETINGS:
        page = _page(request, latest_between(meetings, current, winner, MAX_LISTED))
        found |= {"met": page, "met_rows": _told_met(table, page)}
    return found


def _told_met(table: Table, page: Any) -> list[MetRow]:  # noqa: ANN401 - a page of meetings
    return met_rows(table, list(page.object_list))


def _reordered(request: HttpRequest, table: Table, found: ReorderedVersions) -> dict[str, Any]:
    if request.GET.get("show") != REORDERED:
        shown = found.found[:_REORDERED_SHOWN]
        return {"reordered": found, "reordered_rows": told(table, shown)}
    page = _page(request, found.found)
    rows = told(table, list(page.object_list))
    return {"reordered": found, "reordered_rows": rows, "reordered_page": page}


def _page(request: HttpRequest, rows: Sequence[Any]) -> Any:  # noqa: ANN401 - Django's page
    try:
        return Paginator(rows, _PAGE_SIZE).page(request.GET.get("page", 1))
    except (EmptyPage, PageNotAnInteger) as error:
        msg = "There is no such page of this list."
        raise Http404(msg) from error


def _sums(cells: Sequence[PairCell], pairs: Sequence[Pair], meetings: Meetings) -> dict[str, int]:
    return {
        "met": sum(cell.met for cell in cells) + meetings.elsewhere,
        "escaped": sum(pair.escaped + pair.reported for pair in pairs),
        "absorbed": sum(pair.absorbed for pair in pairs),
    }


def _twin(request: HttpRequest, table: Table) -> str:
    """The same question over REST."""
    below, show = f"/api/v1/tables/{table.pk}", request.GET.get("show")
    current, _, winner = request.GET.get("cell", "").partition("|")
    if show == REORDERED:
        return f"{below}/reordered/"
    if show == MEETINGS and {current, winner} <= {*COLUMNS}:
        return f"{below}/meetings/?{urlencode({'current': current, 'winner': winner})}"
    names = {"level": "level", "vectors": "deletion_vectors", "row_tracking": "row_tracking"}
    asked = {names[name]: request.GET[name] for name in names if request.GET.get(name)}
    if "clustering" in request.GET:
        asked["clustering_columns"] = request.GET["clustering"]
    return f"{below}/isolation/?{urlencode(asked)}" if asked else f"{below}/isolation/"
