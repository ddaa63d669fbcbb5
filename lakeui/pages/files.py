"""How a table lies on storage: sizes, partitions, rows marked deleted."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.paginator import EmptyPage, PageNotAnInteger, Paginator
from django.db.models import F
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from lakeui.catalog.models import Table
from lakeui.pages.charts.histogram import draw_histogram
from lakeui.pages.exports import export
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
_PAGE, _PARTITIONS = 50, 40
_DENSITIES = (
    (0.0, "none"),
    (0.05, "under 5 %"),
    (0.2, "5 to 20 %"),
    (0.5, "20 to 50 %"),
    (1.01, "over half"),
)


@dataclass(slots=True)
class Partition:
    """Files of one partition; `small` are under the size that counts as small."""

    name: str
    files: int = 0
    size_bytes: int = 0
    rows: int = 0
    small: int = 0
    share: float = 0.0


@dataclass(slots=True)
class Layout:
    """Sums over the live files that are mirrored."""

    sizes: list[int] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    partition_count: int = 0
    densities: list[tuple[str, int]] = field(default_factory=list)


@login_required
def files(request: HttpRequest, pk: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    sort = request.GET.get("sort", "-size")
    if sort not in SORTS:
        msg = "Files cannot be put in that order."
        raise Http404(msg)
    live = table.live_files.order_by(SORTS[sort], "path")
    if "export" in request.GET:
        return export(live, COLUMNS, request.GET["export"], f"{table.name}-files")
    context = _context(request, table) | {"page": _page(live, request), "sort": sort}
    return render(request, "tables/files.html", context)


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    values = table.live_files.order_by().values_list(
        "partition_values", "size_bytes", "row_count", "deleted_row_count"
    )
    layout = _layout(values.iterator())
    return {
        "table": table,
        "head": table_head(request, table, "files"),
        "layout": layout,
        "histogram": draw_histogram(layout.sizes, settings.SMALL_FILE_BYTES),
        "small_bytes": settings.SMALL_FILE_BYTES,
        "average": table.size_bytes // table.file_count if table.file_count else None,
        "twin": f"/api/v1/tables/{table.pk}/files/",
    }


def _page(live: Any, request: HttpRequest) -> Any:  # noqa: ANN401 - a page of files
    try:
        return Paginator(live, _PAGE).page(request.GET.get("page", 1))
    except (EmptyPage, PageNotAnInteger) as error:
        msg = "There is no such page of files."
        raise Http404(msg) from error


def _layout(rows: Iterable[tuple[dict[str, str | None], int, int | None, int]]) -> Layout:
    found: dict[str, Partition] = defaultdict(lambda: Partition(""))
    layout, density = Layout(), dict.fromkeys((name for _, name in _DENSITIES), 0)
    for values, size, count, deleted in rows:
        name = ", ".join(f"{key}={value}" for key, value in (values or {}).items())
        part = found[name]
        part.name = name
        part.files += 1
        part.size_bytes += size
        part.rows += count or 0
        part.small += size < settings.SMALL_FILE_BYTES
        layout.sizes.append(size)
        share = deleted / count if count else float(deleted > 0)
        density[next(label for bound, label in _DENSITIES if share <= bound)] += 1
    ranked = sorted(found.values(), key=lambda each: -each.size_bytes)
    largest = ranked[0].size_bytes if ranked else 1
    for part in ranked:
        part.share = 100 * part.size_bytes / largest if largest else 0
    layout.partitions, layout.partition_count = ranked[:_PARTITIONS], len(ranked)
    layout.densities = list(density.items())
    return layout
