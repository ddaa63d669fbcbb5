"""Conditions that need attention, all checks, and mutes."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from engine.errors import RequestError
from lakeui.catalog.access import may, tables_where, visible_tables
from lakeui.catalog.models import Table
from lakeui.monitoring.attention import CONDITIONS, Attention, WordedItem, attention
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.mutes import group_mutes, mute, mutes_now, visible_mutes
from lakeui.monitoring.overview import lake_of
from lakeui.monitoring.recent_conflicts import ConflictsOfDay, day_of
from lakeui.pages.read_only import refuse_when_read_only

SPANS = {"1": "a day", "3": "3 days", "7": "a week", "30": "30 days"}
_MOST = 20  # of each check


@login_required
def attention_list(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    attention_now, context = build_attention(request, now, day_of(request.user, now), _MOST)
    checks = [
        {"rule": rule, "count": attention_now.counts.get(condition, 0)}
        for condition, rule in CONDITIONS.items()
    ]
    context |= {
        "checks": checks,
        "lake": lake_of(request.user),
        "most": _MOST,
        "spans": SPANS,
        "may_mute_all": may(request.user, "maintain"),
        "twin": "/api/v1/attention/",
    }
    return render(request, "overview/attention.html", context)


def build_attention(
    request: HttpRequest, now: datetime, day: ConflictsOfDay, most: int
) -> tuple[Attention, dict[str, Any]]:
    """Return what needs attention now and what is muted, for every page that shows it."""
    mutes = mutes_now(now)
    attention_now = attention(request.user, now, day, group_mutes(mutes), most)
    maintained = _list_maintained_tables(request, attention_now)
    return attention_now, {
        "attention_items": [_limit_to_rights(worded, maintained) for worded in attention_now.items],
        "attention_count": attention_now.count,
        "mutes": visible_mutes(mutes, request.user),
        "check_count": len(Condition),
        "maintained": maintained,
    }


def _limit_to_rights(worded: WordedItem, maintained: Collection[int]) -> WordedItem:
    """Lead those who may not act on the item's table to its page instead."""
    table, said = worded.item.table, worded.said
    acts = said.asks_job or said.posts
    if table is None or not acts or (table.pk in maintained and not settings.READ_ONLY):
        return worded
    address = reverse("table", args=[table.pk])
    return replace(worded, said=replace(said, step="Open table", address=address, posts=False))


@require_POST
@login_required
def attention_mute(request: HttpRequest) -> HttpResponse:
    """Mute a check of one table, or of all where none is posted."""
    refuse_when_read_only()
    check, days = request.POST.get("check", ""), request.POST.get("days", "")
    if check not in Condition.values or days not in SPANS:
        msg = "There is no such check, or it cannot be muted for so long."
        raise Http404(msg)
    table = _table(request)
    _must_maintain(request, table)
    now = timezone.now()
    until = now + timedelta(days=int(days))
    reason = request.POST.get("reason", "")
    try:
        row = mute(Condition(check), table, until, by=request.user, now=now, reason=reason)  # type: ignore[arg-type]  # signed in
    except RequestError as error:
        messages.error(request, str(error))
    else:
        where = f"of {table.name}" if table else "of every table"
        messages.success(
            request,
            f"{Condition(check).label} {where}: muted for {SPANS[days]}, till {row.until:%Y-%m-%d %H:%M} UTC.",
        )
    return redirect("attention")


@require_POST
@login_required
def attention_unmute(request: HttpRequest, pk: int) -> HttpResponse:
    """End a mute."""
    refuse_when_read_only()
    row = get_object_or_404(Mute.objects.select_related("table"), pk=pk)
    if row.table is not None:
        get_object_or_404(visible_tables(request.user), pk=row.table_id)
    _must_maintain(request, row.table)
    row.delete()
    messages.success(request, f"{Condition(row.about).label}: told again.")
    return redirect("attention")


def _table(request: HttpRequest) -> Table | None:
    text = request.POST.get("table", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Http404
    return get_object_or_404(visible_tables(request.user), pk=int(text))


def _must_maintain(request: HttpRequest, table: Table | None) -> None:
    if not may(request.user, "maintain", table):
        msg = "Muting a check needs the role maintainer, on the table or on every table."
        raise PermissionDenied(msg)


def _list_maintained_tables(request: HttpRequest, attention_now: Attention) -> Collection[int]:
    """Return the tables of the attention items that this person may mute."""
    named = {worded.item.table.pk for worded in attention_now.items if worded.item.table}
    if may(request.user, "maintain"):
        return named
    return set(
        tables_where(request.user, "maintain").filter(pk__in=named).values_list("pk", flat=True)
    )
