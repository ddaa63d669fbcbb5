"""Writes that met: all of them, and one with both sides."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from engine.conflicts.checker import CHECKS
from lakeui.conflicts.filters import ConflictFilter, to_list, visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.pages.exports import export
from lakeui.pages.list_table import one_table
from lakeui.pages.listing import Listing
from lakeui.pages.table_head import table_head

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
    "message": lambda c: c.message,
}


@login_required
def conflict_list(request: HttpRequest) -> HttpResponseBase:
    conflicts = to_list(visible_conflicts(request.user))
    listing = Listing(request, ConflictFilter(request.GET, conflicts))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], "conflicts")
    context = _list_context(request, listing)
    return render(request, "conflicts/list.html", context, status=listing.status)


def _list_context(request: HttpRequest, listing: Listing) -> dict[str, Any]:
    table = one_table(request)
    sums = _sums(listing.rows)
    listing.known_total = sums["absorbed"] + sums["escaped"] + sums["reported"]
    return {
        "listing": listing,
        "table": table,
        "head": table_head(request, table, "conflicts") if table else None,
        "sums": sums,
        "kinds": Conflict.Kind,
        "exceptions": sorted({check.error.__name__ for check in CHECKS}),
        "twin": listing.twin("/api/v1/conflicts/"),
    }


def _sums(conflicts: QuerySet[Conflict]) -> dict[str, int]:
    lost = ~Q(kind=Conflict.Kind.ABSORBED)
    return conflicts.order_by().aggregate(
        absorbed=Count("pk", Q(kind=Conflict.Kind.ABSORBED)),
        escaped=Count("pk", Q(kind=Conflict.Kind.ESCAPED)),
        reported=Count("pk", Q(kind=Conflict.Kind.REPORTED)),
        ms=Sum("wasted_ms", filter=lost),
        size=Sum("wasted_bytes", filter=lost),
    )
