"""Repeated conflicts: pairs of statements as a list to work through."""

from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from engine.errors import RequestError
from lakeui.catalog.access import may, tables_where
from lakeui.conflicts.filters import STATES, RepeatedConflictFilter, visible_pairs
from lakeui.monitoring.mutes import mute_pair
from lakeui.monitoring.repeated_conflicts import (
    describe_repeated,
    select_repeated,
    work_on_pair,
)
from lakeui.pages.charts.bars import draw_counts
from lakeui.pages.errors import refuse_when_read_only
from lakeui.pages.exports import export
from lakeui.pages.listing import ListPage, range_of
from lakeui.pages.overview import SPANS

COLUMNS = {
    "id": lambda repeated: repeated.pair.pk,
    "table": lambda repeated: repeated.pair.table.name,
    "current_operation": lambda repeated: repeated.pair.current_operation,
    "current_statement": lambda repeated: repeated.current_statement,
    "winner_operation": lambda repeated: repeated.pair.winner_operation,
    "winner_statement": lambda repeated: repeated.pair.winner_statement,
    "times": lambda repeated: repeated.times,
    "wasted_ms": lambda repeated: repeated.wasted_ms,
    "wasted_bytes": lambda repeated: repeated.wasted_bytes,
    "first_at": lambda repeated: repeated.first_at,
    "last_at": lambda repeated: repeated.last_at,
    "trend": lambda repeated: repeated.trend,
    "fix": lambda repeated: repeated.fix_text,
    "state": lambda repeated: repeated.state,
    "assignee": lambda repeated: repeated.pair.assignee and repeated.pair.assignee.get_username(),
    "note": lambda repeated: repeated.pair.note,
}


@login_required
def list_repeated(request: HttpRequest) -> HttpResponseBase:
    now, time_range = timezone.now(), range_of(request)
    pairs = select_repeated(request.user, time_range, now)
    listing = ListPage(request, RepeatedConflictFilter(request.GET, pairs), page_size=25)
    if "export" in request.GET and listing.is_valid:
        described = describe_repeated(listing.rows, request.user, time_range, now)
        return export(described, COLUMNS, request.GET["export"], "repeated-conflicts")
    sums = listing.rows.order_by().aggregate(
        pair_count=Count("pk"), aborted=Sum("times", default=0), ms=Sum("wasted_ms", default=0),
        size=Sum("wasted_bytes", default=0),
    )  # fmt: skip
    listing.known_total = sums["pair_count"]
    repeated = describe_repeated(listing.page, request.user, time_range, now)
    writable, maintained = (
        set(tables_where(request.user, action).values_list("pk", flat=True).filter(
            pk__in={one.pair.table_id for one in repeated}))
        for action in ("write", "maintain")
    )  # fmt: skip
    context = {
        "listing": listing,
        "repeated": repeated,
        "sparks": {one.pair.pk: draw_counts(one.counts) for one in repeated},
        "sums": sums,
        "states": STATES,
        "time_range": time_range,
        "writable": writable,
        "maintained": maintained,
        "spans": SPANS,
        "twin": listing.twin("/api/v1/conflicts/repeated/"),
    }
    return render(request, "conflicts/repeated.html", context, status=listing.status)


@require_POST
@login_required
def change_repeated(request: HttpRequest, pk: int) -> HttpResponse:
    """Store the state of a pair, or mute its conflicts."""
    refuse_when_read_only()
    pairs = visible_pairs(request.user).select_related("table")
    pair = get_object_or_404(pairs, pk=pk)
    days, now = request.POST.get("days", ""), timezone.now()
    action = "maintain" if "days" in request.POST else "write"
    if not may(request.user, action, pair.table):
        msg = f"You need the right to {action} {pair.table.name}."
        raise PermissionDenied(msg)
    if "days" in request.POST and days not in SPANS:
        msg = "It cannot be muted for so long."
        raise Http404(msg)
    try:
        if days:
            until = now + timedelta(days=int(days))
            reason = request.POST.get("reason", "")
            mute_pair(pair, until, by=request.user, now=now, reason=reason)  # type: ignore[arg-type]  # signed in
            messages.success(request, f"{pair}: muted for {SPANS[days]}.")
        else:
            work_on_pair(
                pair,
                is_known="is_known" in request.POST,
                assignee=request.POST.get("assignee", "").strip(),
                note=request.POST.get("note", ""),
            )
            messages.success(request, f"{pair}: saved.")
    except RequestError as error:
        messages.error(request, str(error))
    time_range = range_of(request)
    return redirect(f"{reverse('conflict-repeated')}?range={time_range.name}#pair-{pair.pk}")
