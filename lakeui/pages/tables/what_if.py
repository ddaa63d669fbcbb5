"""A table's own history, held against another level or another granularity."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import render

from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.record_replay import JUDGED
from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.effect import PROMISES
from lakeui.conflicts.replay.overlaps import (
    PairChange,
    Replay,
    ReplayedWrite,
    WriteOutcome,
    pair_changes,
    replay,
)
from lakeui.conflicts.replay.recorded_history import latest_versions
from lakeui.conflicts.replay.what_if import MAX_CONFLICTS
from lakeui.pages.exports import export
from lakeui.pages.listing import find_page
from lakeui.pages.table_head import table_head, visible_table

SPANS = (50, 100, 200)
_PAGE_SIZE = 25
_PAIRS_SHOWN = 12
CHANGES = "changes"
_EXPORTED: Mapping[str, Callable[[ReplayedWrite], Any]] = {
    "version": lambda overlap: overlap.version,
    "conflict_id": lambda overlap: overlap.conflict_id,
    "operation": lambda overlap: overlap.operation,
    "user": lambda overlap: overlap.user_name,
    "at": lambda overlap: overlap.at,
    "overlap_count": lambda overlap: overlap.overlap_count,
    "outcome": lambda overlap: str(overlap.outcome),
    "would_be": lambda overlap: str(overlap.verdict),
    "why": lambda overlap: overlap.why,
    "winning_version": lambda overlap: overlap.winning_version,
    "winner_operation": lambda overlap: overlap.winner_operation,
    "cost_ms": lambda overlap: overlap.cost_ms,
    "cost_bytes": lambda overlap: overlap.cost_bytes,
}


@dataclass(frozen=True, slots=True)
class PairBar:
    """A pair's lengths in per cent of the longest: now, then, and the undecidable part's end."""

    pair: PairChange
    now: float
    then: float
    open: float


@login_required
def what_if_page(request: HttpRequest, pk: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    level, row_level = _parse_setting(request, table)
    replayed = replay(
        table, level, row_level=row_level, versions=latest_versions(table, _parse_span(request))
    )
    rows = _filter_overlaps(request, replayed.overlaps)
    if "export" in request.GET:
        return export(rows, _EXPORTED, request.GET["export"], f"{table.name}-what-if")
    return render(request, "tables/what_if.html", _context(request, table, replayed, rows))


def _context(
    request: HttpRequest, table: Table, replayed: Replay, rows: Sequence[ReplayedWrite]
) -> dict[str, Any]:
    level, row_level = replayed.answer.level, replayed.answer.row_level
    pairs = pair_changes(replayed.overlaps)
    words = str(row_level).lower()
    return {
        "table": table,
        "head": table_head(request, table, "what-if"),
        "found": replayed,
        "answer": replayed.answer,
        "asked": replayed.asked,
        "levels": PROMISES,
        "level": level,
        "row_level": row_level,
        "own": (table.isolation_level, table.row_level_eligible),
        "is_as_it_is": (level, row_level) == (table.isolation_level, table.row_level_eligible),
        "span": _parse_span(request),
        "spans": SPANS,
        "bars": _bars(pairs[:_PAIRS_SHOWN]),
        "pair_count": len(pairs),
        "page": find_page(request, Paginator(rows, _PAGE_SIZE)),
        "total": len(rows),
        "verdicts": Counter(str(overlap.verdict) for overlap in replayed.overlaps),
        "changes": sum(overlap.change != 0 for overlap in replayed.overlaps),
        "outcome": request.GET.get("outcome", ""),
        "outcomes": Counter(str(overlap.outcome) for overlap in replayed.overlaps),
        "max_conflicts": MAX_CONFLICTS,
        "twin": f"/api/v1/tables/{table.pk}/what-if/?level={level}&row_level={words}"
        f"&first={replayed.answer.first}&last={replayed.answer.last}",
    }


def _filter_overlaps(
    request: HttpRequest, overlaps: Sequence[ReplayedWrite]
) -> list[ReplayedWrite]:
    """Return the overlaps of one verdict, outcome or operation; 404 for an unknown filter."""
    verdict, outcome = request.GET.get("verdict", ""), request.GET.get("outcome", "")
    if verdict not in ("", CHANGES, *JUDGED) or outcome not in ("", *WriteOutcome):
        msg = "Unknown filter."
        raise Http404(msg)
    kept = [overlap for overlap in overlaps if outcome in ("", overlap.outcome)]
    if verdict == CHANGES:
        kept = [overlap for overlap in kept if overlap.change]
    elif verdict:
        kept = [overlap for overlap in kept if overlap.verdict == verdict]
    operation = request.GET.get("operation", "").upper()
    return [overlap for overlap in kept if operation in ("", overlap.operation.upper())]


def _bars(pairs: Sequence[PairChange]) -> list[PairBar]:
    longest = max((max(pair.now, pair.then + pair.open) for pair in pairs), default=0) or 1
    share = 100 / longest
    return [PairBar(pair, pair.now * share, pair.then * share, pair.open * share) for pair in pairs]


def _parse_setting(request: HttpRequest, table: Table) -> tuple[IsolationLevel, bool]:
    """Return the requested setting; by default the table's own."""
    level = request.GET.get("level") or table.isolation_level or IsolationLevel.WRITE_SERIALIZABLE
    rows = request.GET.get("row_level", "")
    if level not in PROMISES or rows not in ("", "true", "false"):
        msg = "Unknown setting."
        raise Http404(msg)
    return IsolationLevel(level), rows == "true" if rows else table.row_level_eligible


def _parse_span(request: HttpRequest) -> int:
    text = request.GET.get("span", "")
    if text and text not in map(str, SPANS):
        msg = "Unknown number of versions."
        raise Http404(msg)
    return int(text or SPANS[1])
