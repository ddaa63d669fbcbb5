"""The changes between two versions of a table: schema, properties, protocol, files, rows."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from lakeui.catalog.differences import difference, versions_between
from lakeui.catalog.file_differences import FILES_COMPARED
from lakeui.catalog.models import Table
from lakeui.pages.exports import export
from lakeui.pages.table_head import table_head, visible_table
from lakeui.pages.tables.history import COLUMNS

_VERSIONS_A_PAGE = 50


@login_required
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect from two ticked versions to their page."""
    table = visible_table(request, pk)
    ticked = [text for text in request.GET.getlist("v") if text.isascii() and text.isdigit()]
    versions = sorted({int(text) for text in ticked if len(text) < 19})
    if len(versions) < 2:
        return redirect("table-history", table.pk)
    return redirect("table-diff", table.pk, versions[0], versions[-1])


@login_required
def diff(request: HttpRequest, pk: int, older: int, newer: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    if older > newer:
        return redirect("table-diff", pk, newer, older)
    if older == newer:
        return redirect("table-version", pk, newer)
    comparison = difference(table, older, newer)
    if comparison is None:
        msg = f"The mirror holds no version of {table.name} from {older + 1} to {newer}."
        raise Http404(msg)
    between = versions_between(table, older, newer).order_by("-version")
    if "export" in request.GET:
        name = f"{table.name}-v{older}-v{newer}"
        return export(between, COLUMNS, request.GET["export"], name)
    context: dict[str, Any] = {
        "table": table,
        "head": table_head(request, table, "history", here=newer),
        "found": comparison,
        "compared": FILES_COMPARED,
        "earlier": _find_neighbor_span(table, older, newer, -1),
        "later": _find_neighbor_span(table, older, newer, +1),
        "versions": Paginator(between, _VERSIONS_A_PAGE).get_page(request.GET.get("page")),
        "twin": f"/api/v1/tables/{table.pk}/diff/{older}...{newer}/",
    }
    return render(request, "tables/diff.html", context)


def _find_neighbor_span(
    table: Table, older: int, newer: int, direction: int
) -> tuple[int, int] | None:
    """Return the span of equal width right before or after; None if it is not mirrored."""
    width = newer - older
    first, last = older + direction * width, newer + direction * width
    inside = first >= (table.earliest_version or 0) and last <= (table.version or 0)
    return (first, last) if inside else None
