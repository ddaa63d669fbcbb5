"""All conflicts with their cost, and the six conflict exceptions with their meaning and causes."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from engine.conflicts.decide.checker import CHECKS
from engine.conflicts.explain.exceptions import GUIDES, SUBCLASS_MEANINGS, TRANSACTIONS_ELSEWHERE
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.hours import RANGES
from lakeui.conflicts.costs import cost_by_column, cost_by_pair
from lakeui.conflicts.filters import (
    ConflictFilter,
    prepare_list,
    redact_conflicts,
    visible_conflicts,
)
from lakeui.conflicts.models import Conflict
from lakeui.monitoring.recent_conflicts import costs_by_partition
from lakeui.pages.charts.heat import draw_heat, draw_partition_heat
from lakeui.pages.exports import CHUNK, export
from lakeui.pages.listing import ListPage, one_table
from lakeui.pages.table_head import table_head

HEATS = ("hour", "partition")
_PAIRS = 6
COLUMNS = {
    "id": lambda c: c.pk,
    "occurred_at": lambda c: c.occurred_at,
    "table": lambda c: c.table.name if c.table else None,
    "kind": lambda c: c.kind,
    "exception": lambda c: c.exception,
    "code": lambda c: c.code,
    "subclass": lambda c: c.subclass,
    "rule": lambda c: c.rule,
    "current_operation": lambda c: c.current_operation,
    "current_user_name": lambda c: c.current_user_name,
    "current_predicate": lambda c: c.current_predicate,
    "read_version": lambda c: c.read_version,
    "attempted_version": lambda c: c.attempted_version,
    "winning_version": lambda c: c.winning_version,
    "winner_operation": lambda c: c.winner_operation,
    "winner_user_name": lambda c: c.winner_user_name,
    "isolation_level": lambda c: c.isolation_level,
    "row_level": lambda c: c.row_level,
    "file_count": lambda c: c.file_count,
    "row_count": lambda c: c.row_count,
    "partitions": lambda c: c.partitions,
    "wasted_ms": lambda c: c.wasted_ms,
    "wasted_bytes": lambda c: c.wasted_bytes,
    "job": lambda c: str(c.job_id) if c.job_id else None,
    "pipeline": lambda c: c.transaction.pipeline.name if c.transaction else None,
    "message": lambda c: c.message,
}


@login_required
def conflict_list(request: HttpRequest) -> HttpResponseBase:
    conflicts = prepare_list(visible_conflicts(request.user))
    listing = ListPage(request, ConflictFilter(request.GET, conflicts))
    if "export" in request.GET and listing.is_valid:
        rows = redact_conflicts(listing.rows.iterator(chunk_size=CHUNK), Reader(request.user))
        return export(rows, COLUMNS, request.GET["export"], "conflicts")
    context = _list_context(request, listing)
    return render(request, "conflicts/conflicts.html", context, status=listing.status)


def _list_context(request: HttpRequest, listing: ListPage) -> dict[str, Any]:
    table = one_table(request)
    narrowed = ConflictFilter(request.GET, visible_conflicts(request.user)).qs
    conflicts = narrowed if listing.is_valid else narrowed.none()
    costs = cost_by_pair(conflicts)
    sums = costs.total
    listing.known_total = sums.conflict_count
    return {
        "listing": listing,
        "table": table,
        "time_range": RANGES.get(request.GET.get("range", "")),
        "head": table_head(request, table, "conflicts") if table else None,
        "sums": sums,
        "aborted_count": sums.aborted + sums.reported,
        "pairs": costs.pairs[:_PAIRS],
        "more_pairs": max(0, len(costs.pairs) - _PAIRS),
        "kind": request.GET.get("kind", ""),
        "exceptions": sorted({check.error.__name__ for check in CHECKS}),
        "twin": listing.twin("/api/v1/conflicts/"),
        "costs_twin": listing.twin("/api/v1/conflicts/costs/"),
    } | _heat(request, conflicts)


def _heat(request: HttpRequest, conflicts: QuerySet[Conflict]) -> dict[str, Any]:
    """Return the cost of the conflicts of the range, by hour or day, or by partition."""
    by, now = request.GET.get("heat", HEATS[0]), timezone.now()
    if by not in HEATS:
        msg = "Cost is shown by hour or by partition."
        raise Http404(msg)
    heat_range = RANGES.get(request.GET.get("range", ""), RANGES["24h"])
    shown = {"heat_by": by, "heat_range": heat_range}
    if by == "hour":
        costs_by_column = cost_by_column(conflicts, now, heat_range)
        return shown | {"heat": draw_heat(costs_by_column, now, heat_range)}
    costs = costs_by_partition(conflicts, heat_range.start(now))
    return shown | {"heat": draw_partition_heat(costs.rows), "costs": costs}


@login_required
def exceptions(request: HttpRequest) -> HttpResponse:
    """Render the page without a query."""
    context = {
        "guides": GUIDES,
        "subclasses": SUBCLASS_MEANINGS,
        "transactions_elsewhere": TRANSACTIONS_ELSEWHERE,
        "twin": "/api/v1/conflicts/exceptions/",
    }
    return render(request, "conflicts/exceptions.html", context)
