"""All tables."""

from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, Q, Subquery, Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.filters import TableFilter, list_namespaces
from lakeui.catalog.health import Health
from lakeui.catalog.syncs import ask_worker
from lakeui.monitoring.recent_conflicts import list_aborted_since
from lakeui.monitoring.table_health import annotate_health, select_aborted_tables
from lakeui.pages.exports import export
from lakeui.pages.listing import ListPage
from lakeui.pages.table_head import visible_table
from lakeui.task_names import NO_WORKER_ASKED

COLUMNS = {
    "id": lambda t: t.pk,
    "name": lambda t: t.name,
    "uri": lambda t: t.uri,
    "health": lambda t: t.health,
    "version": lambda t: t.version,
    "last_commit_at": lambda t: t.last_commit_at,
    "last_operation": lambda t: t.last_operation,
    "last_writer": lambda t: t.last_writer,
    "size_bytes": lambda t: t.size_bytes,
    "file_count": lambda t: t.file_count,
    "small_file_count": lambda t: t.small_file_count,
    "row_count": lambda t: t.row_count,
    "isolation_level": lambda t: t.isolation_level,
    "row_level_eligible": lambda t: t.row_level_eligible,
    "row_level_reason": lambda t: t.row_level_reason,
    "mirrored_at": lambda t: t.mirrored_at,
    "mirror_error": lambda t: t.mirror_error,
}


_FEW, _NAMESPACES = 25, 12


@login_required
def table_list(request: HttpRequest) -> HttpResponseBase:
    tables = annotate_health(visible_tables(request.user)).order_by("name")
    tables = tables.annotate(aborted_in_a_day=_count_aborted_in_a_day(request))
    listing = ListPage(request, TableFilter(request.GET, tables))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], "tables")
    sums = listing.rows.order_by().aggregate(size=Sum("size_bytes"), files=Sum("file_count"))
    counts = _count_by_health(request)
    context = {
        "listing": listing,
        "counts": counts,
        "namespaces": list_namespaces(tables)[:_NAMESPACES] if counts["all"] > _FEW else (),
        "sums": sums,
        "to_look_at": select_aborted_tables(
            {table.pk: table.aborted_in_a_day or 0 for table in listing.page}
        ),
        "may_register": may(request.user, "maintain"),
        "twin": listing.twin("/api/v1/tables/"),
        "sort": request.GET.get("sort", "name"),
    }
    return render(request, "tables/tables.html", context, status=listing.status)


def _count_by_health(request: HttpRequest) -> dict[str, int]:
    """Count the tables by health, which is judged once for each, and those of other filters."""
    rows = (
        annotate_health(visible_tables(request.user))
        .order_by()
        .values_list("health")
        .annotate(
            n=Count("pk"), off=Count("pk", Q(row_level_eligible=False, version__isnull=False))
        )
    )
    counts, off = {}, 0
    for health, count, without in rows:
        counts[health], off = count, off + without
    return (
        dict.fromkeys(Health.values, 0)
        | counts
        | {"all": sum(counts.values()), "no_row_level": off}
    )


def _count_aborted_in_a_day(request: HttpRequest) -> Subquery:
    """Count the aborted writes of a table in 24 hours: many need attention."""
    aborted = list_aborted_since(request.user, timezone.now() - timedelta(hours=24))
    of_table = aborted.filter(table=OuterRef("pk")).values("table").annotate(n=Count("pk"))
    return Subquery(of_table.values("n"))


@require_POST
@login_required
def table_refresh(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks a worker to read the log again; the page itself never does."""
    table = visible_table(request, pk)
    if not may(request.user, "maintain", table):
        raise PermissionDenied
    if ask_worker(table):
        messages.success(request, f"A worker was asked to read the log of {table.name} again.")
    else:
        messages.error(request, NO_WORKER_ASKED)
    return redirect("table", pk)
