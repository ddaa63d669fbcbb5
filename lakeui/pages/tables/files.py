"""How a table lies on storage: sizes, partitions, rows marked deleted."""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import F
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from lakeui.catalog.chores import chores
from lakeui.catalog.file_layout import file_layout, measure_unclustered
from lakeui.catalog.filters import LiveFileFilter
from lakeui.catalog.models import Table
from lakeui.pages.charts.bars import draw_histogram
from lakeui.pages.exports import export
from lakeui.pages.listing import ListPage
from lakeui.pages.table_head import table_head, visible_table

SORTS = {
    "path": F("path").asc(),
    "size": F("size_bytes").asc(),
    "-size": F("size_bytes").desc(),
    "rows": F("row_count").asc(nulls_last=True),
    "-rows": F("row_count").desc(nulls_last=True),
    "-deleted": F("deleted_row_count").desc(),
    "-modified": F("modified_at").desc(nulls_last=True),
}
COLUMNS = {
    "path": lambda f: f.path,
    "partition_values": lambda f: f.partition_values,
    "size_bytes": lambda f: f.size_bytes,
    "row_count": lambda f: f.row_count,
    "deleted_row_count": lambda f: f.deleted_row_count,
    "modified_at": lambda f: f.modified_at,
}


class FileFilter(LiveFileFilter):
    """The filters of REST, with more orders."""

    sort = None


@login_required
def files(request: HttpRequest, pk: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    sort = request.GET.get("sort", "-size")
    if sort not in SORTS:
        msg = "Unknown sort order."
        raise Http404(msg)
    live = table.live_files.order_by(SORTS[sort], "path")
    listing = ListPage(request, FileFilter(request.GET, live))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], f"{table.name}-files")
    context = _context(request, table) | {"listing": listing, "sort": sort}
    context["twin"] = listing.twin(f"/api/v1/tables/{table.pk}/files/")
    return render(request, "tables/files.html", context, status=listing.status)


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    head = table_head(request, table, "files")
    layout, not_clustered = file_layout(table), measure_unclustered(table)
    return {
        "table": table,
        "head": head,
        "layout": layout,
        "histogram": draw_histogram(layout.sizes, settings.SMALL_FILE_BYTES),
        "chores": chores(table, not_clustered),
        "unclustered": not_clustered,
        "may_job": head.may_write and not settings.READ_ONLY,
        "small_below": settings.SMALL_FILE_BYTES - 1,
        "small_bytes": settings.SMALL_FILE_BYTES,
        "average": table.size_bytes // table.file_count if table.file_count else None,
    }
