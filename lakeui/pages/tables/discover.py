"""Tables found below a root: previewed, and registered by choice."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.catalog.discovery import (
    MOST_HOURS,
    MOST_REGISTERED,
    go_on,
    not_registered,
    register_found,
    request_discovery,
)
from lakeui.catalog.models import Discovery, Table
from lakeui.catalog.unregistered_tables import dismiss, list_attention_tables
from lakeui.pages.read_only import refuse_when_read_only

_SHOWN = 500
_RECENT = 5
_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class DiscoverForm(forms.Form):
    root = forms.CharField(
        label="Root",
        max_length=2000,
        help_text="A directory, or an s3://, gs:// or az:// address, under one of the roots an "
        "administrator allowed.",
        widget=forms.TextInput(attrs=_MONO),
    )
    match = forms.CharField(
        label="Only paths like",
        max_length=255,
        required=False,
        help_text="A pattern below the root: sales/*. Left empty, every path.",
        widget=forms.TextInput(attrs=_MONO),
    )
    naming = forms.CharField(
        label="Names",
        max_length=255,
        initial="{path}",
        help_text="{path} is the path with dots, {name} its last part, {parent} the part before: "
        "lake.{name}.",
        widget=forms.TextInput(attrs=_MONO),
    )
    every_hours = forms.IntegerField(
        label="Search again after (hours)",
        required=False,
        min_value=1,
        max_value=MOST_HOURS,
        help_text="Left empty, it searches once.",
    )
    registers = forms.BooleanField(
        label="Register what is found",
        required=False,
        help_text="As you, when a search is complete, as long as you may register tables.",
    )


@login_required
def discover(request: HttpRequest) -> HttpResponse:
    """Render the page; `run` in the query string names the shown search. A POST begins one."""
    _must_maintain(request)
    form = DiscoverForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        refuse_when_read_only()
        try:
            made = request_discovery(**form.cleaned_data, by=request.user)  # type: ignore[arg-type]
        except EngineError as error:
            field = str(getattr(error, "field", ""))
            form.add_error(field if field in form.fields else None, str(error))
        else:
            return redirect(_address(made))
    status = 400 if form.errors else 200
    context = {"form": form, "twin": "/api/v1/discoveries/"} | _discovery_context(request)
    is_fragment = bool(request.htmx) and request.method == "GET"  # type: ignore[attr-defined]
    template = "tables/_discovery.html" if is_fragment else "tables/discover.html"
    return render(request, template, context, status=status)


@require_POST
@login_required
def discover_act(request: HttpRequest, pk: int) -> HttpResponse:
    """Register chosen or all tables, continue the search, or delete it."""
    _must_maintain(request)
    refuse_when_read_only()
    discovery = get_object_or_404(Discovery, pk=pk)
    act = request.POST.get("act", "")
    if act == "remove":
        discovery.delete()
        return redirect("table-discover")
    if act == "continue":
        go_on(discovery)
    elif act == "dismiss":
        messages.success(request, f"{dismiss(discovery)} dismissed. Later ones are told again.")
    else:
        _register(request, discovery, everything=act == "register-all")
    return redirect(_address(discovery))


def _register(request: HttpRequest, discovery: Discovery, *, everything: bool) -> None:
    chosen = set(request.POST.getlist("chosen"))
    rows = [row for row in not_registered(discovery) if everything or str(row.pk) in chosen]
    places = [(row.place, row.name) for row in rows[:MOST_REGISTERED]]
    done = register_found(places, request.user)  # type: ignore[arg-type]  # signed in
    if done.tables:
        count = len(done.tables)
        messages.success(request, f"{count} registered. A worker reads their logs.")
    for error in list(done.refused.values())[:5]:
        messages.error(request, str(error))
    if len(rows) > len(places):
        messages.warning(request, f"{len(rows) - len(places)} are left: register them next.")


def _discovery_context(request: HttpRequest) -> dict[str, Any]:
    searches = Discovery.objects.select_related("requested_by")
    text = request.GET.get("run", "")
    is_id = text.isascii() and text.isdigit() and len(text) < 19
    discovery = searches.filter(pk=int(text)).first() if is_id else None
    context: dict[str, Any] = {"recent": searches[:_RECENT], "discovery": discovery}
    if discovery is None:
        return context
    rows = list(discovery.tables.all()[:_SHOWN])
    table_ids = dict(
        Table.objects.filter(uri__in=[row.place for row in rows]).values_list("uri", "pk")
    )
    return context | {
        "found": rows,
        "known": table_ids,
        "found_count": discovery.tables.count(),
        "told_count": list_attention_tables().filter(discovery=discovery).count(),
        "new_count": len(rows) - len(table_ids),
        "twin": f"/api/v1/discoveries/{discovery.pk}/",
    }


def _address(discovery: Discovery) -> str:
    return f"{reverse('table-discover')}?run={discovery.pk}"


def _must_maintain(request: HttpRequest) -> None:
    if not may(request.user, "maintain"):
        msg = "New tables need the role maintainer or admin on every table."
        raise PermissionDenied(msg)
