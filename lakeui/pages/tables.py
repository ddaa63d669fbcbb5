"""All tables."""

from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError

from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.filters import TableFilter
from lakeui.catalog.health import Health, with_health
from lakeui.celery import app
from lakeui.monitoring.losses import lost_since
from lakeui.pages.exports import export
from lakeui.pages.listing import Listing
from lakeui.pages.table_head import visible_table
from lakeui.task_names import LIGHT_QUEUE, MIRROR_TABLE

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


@login_required
def table_list(request: HttpRequest) -> HttpResponseBase:
    tables = with_health(visible_tables(request.user)).order_by("name")
    listing = Listing(request, TableFilter(request.GET, tables))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], "tables")
    sums = listing.rows.order_by().aggregate(size=Sum("size_bytes"), files=Sum("file_count"))
    each_health = {health: Count("pk", Q(health=health)) for health in Health.values}
    counts = tables.order_by().aggregate(
        all=Count("pk"),
        no_row_level=Count("pk", Q(row_level_eligible=False, version__isnull=False)),
        **each_health,
    )
    context = {
        "listing": listing,
        "counts": counts,
        "sums": sums,
        "to_look_at": _many_lost(request, listing),
        "may_register": may(request.user, "maintain"),
        "twin": listing.twin("/api/v1/tables/"),
        "sort": request.GET.get("sort", "name"),
    }
    return render(request, "tables/list.html", context, status=listing.status)


def _many_lost(request: HttpRequest, listing: Listing) -> set[int]:
    """Those of this page that lost so many writes in a day that the overview asks to look at them."""
    since = timezone.now() - timedelta(hours=24)
    lost = lost_since(request.user, since).filter(table__in=[each.pk for each in listing.page])
    by_table = lost.values_list("table_id").annotate(n=Count("pk"))
    return {pk for pk, n in by_table if n >= settings.ATTENTION_ESCAPED}


@require_POST
@login_required
def table_refresh(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks a worker to read the log again; the page itself never does."""
    table = visible_table(request, pk)
    if not may(request.user, "maintain", table):
        raise PermissionDenied
    try:
        app.send_task(MIRROR_TABLE, [table.pk], queue=LIGHT_QUEUE)
    except (OperationalError, OSError):
        messages.error(request, "The broker cannot be reached, so no worker was asked.")
    else:
        messages.success(request, f"A worker was asked to read the log of {table.name} again.")
    return redirect("table", pk)
