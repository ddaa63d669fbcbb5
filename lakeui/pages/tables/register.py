"""Registration of tables: an existing one, a clone, those found below a root; and unregistering.

A clone is a job; its form is here. Unregistering shows the records to be deleted, and asks for the
table's name.
"""

from shlex import quote
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from engine.errors import EngineError
from lakeui.catalog.access import ACTIONS, may, visible_tables
from lakeui.catalog.discovery import (
    MOST_HOURS,
    MOST_REGISTERED,
    dismiss,
    go_on,
    list_attention_tables,
    not_registered,
    register_found,
    request_discovery,
)
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.models import Discovery, Table
from lakeui.catalog.registration import request_registration
from lakeui.conflicts.unregistration import count_records, right_to_unregister, unregister_table
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_create
from lakeui.pages.errors import refuse_when_read_only
from lakeui.pages.table_head import visible_table

MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}

_SHOWN = 500
_RECENT = 5


class RegisterForm(forms.Form):
    uri = forms.CharField(
        label="Location",
        max_length=2000,
        help_text="The table's directory: a path, or an s3://, gs:// or az:// URL.",
        widget=forms.TextInput(attrs=MONO | {"autofocus": True}),
    )
    name = forms.CharField(
        label="Name",
        max_length=255,
        required=False,
        help_text="The table's name here. Leave empty to use its path below the root, with dots.",
        widget=forms.TextInput(attrs=MONO),
    )


@login_required
def register(request: HttpRequest) -> HttpResponse:
    must_maintain(request)
    form = RegisterForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        refuse_when_read_only()
        try:
            table = request_registration(**form.cleaned_data, by=request.user)  # type: ignore[arg-type]
        except EngineError as error:
            blame(form, error)
        else:
            messages.success(request, f"{table.name} was registered. A worker will read its log.")
            return redirect("table", table.pk)
    status = 400 if form.errors else 200
    body = {"uri": form["uri"].value() or "s3://lake/sales/orders", "name": form["name"].value()}
    act = {"address": "/api/v1/tables/", "body": body}
    context = {"form": form, "act": act} | roots_context()
    return render(request, "tables/register.html", context, status=status)


def roots_context() -> dict[str, Any]:
    """Return where tables may lie, and how an administrator allows another place."""
    named = [root for root in settings.TABLE_ROOTS if root != str(settings.LAKE_HOME)]
    variable = f"TABLE_ROOTS={quote(','.join([*named, '/path/to/tables']))}"
    start = f"{variable} {settings.START_COMMAND}" if settings.EMBEDDED else ""
    return {"roots": settings.TABLE_ROOTS, "roots_variable": variable, "roots_start": start}


def blame(form: forms.Form, error: EngineError) -> None:
    """Show the error at its field."""
    field = str(getattr(error, "field", "")).removeprefix("source.")
    form.add_error(field if field in form.fields else None, str(error))


def must_maintain(request: HttpRequest) -> None:
    """Require the right to maintain all tables, which new tables need."""
    if not may(request.user, "maintain"):
        msg = "You need the role maintainer or admin on every table to add tables."
        raise PermissionDenied(msg)


@login_required
def unregister(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    needed = right_to_unregister(table)
    if not may(request.user, needed, table):
        msg = f"You need the role {ACTIONS[needed].label} on {table.name} to unregister it."
        raise PermissionDenied(msg)
    problem = ""
    if request.method == "POST":
        try:
            problem = _unregister(request, table)
        except EngineError as error:
            problem = str(error)
        if not problem:
            return redirect("table-list")
    context = {"table": table, "kept": count_records(table), "problem": problem}
    context |= {"twin": f"/api/v1/tables/{table.pk}/"}
    return render(request, "tables/unregister.html", context, status=400 if problem else 200)


def _unregister(request: HttpRequest, table: Table) -> str:
    """Unregister the table; return why not, empty if it was done."""
    if request.POST.get("confirm") != table.name:
        return f"Type {table.name} to confirm. Nothing was unregistered."
    name = table.name
    by: User = request.user  # type: ignore[assignment]  # signed in
    unregister_table(table, by, request.POST.get("reason", "")[:2000])
    messages.success(request, f"{name} is no longer registered. Its files were not touched.")
    return ""


class CloneForm(forms.Form):
    name = forms.CharField(
        label="Name of the new table",
        max_length=255,
        help_text="Up to four parts separated by dots: sales.orders_test.",
        widget=forms.TextInput(attrs=MONO | {"autofocus": True}),
    )
    source_table = forms.CharField(
        label="Clone of",
        max_length=2000,
        help_text="The name of a registered table that you may see.",
        widget=forms.TextInput(attrs=MONO | {"list": "tables-to-clone"}),
    )
    version = forms.IntegerField(
        label="At version", required=False, min_value=0, help_text="The latest version by default."
    )
    deep = forms.ChoiceField(
        label="Its files",
        choices=[("", "Share the files: a shallow clone"), ("yes", "Copy the files: a deep clone")],
        required=False,
        help_text="A shallow clone is ready at once. A deep clone does not depend on its source.",
    )
    description = forms.CharField(label="About", required=False, max_length=2000)


@login_required
def clone(request: HttpRequest) -> HttpResponse:
    if not may(request.user, "maintain"):
        msg = "You need the role maintainer or admin on every table to add tables."
        raise PermissionDenied(msg)
    form = CloneForm(request.POST or None, initial={"source_table": request.GET.get("of", "")})
    if request.method == "POST" and form.is_valid():
        try:
            job = _request(request, form.cleaned_data)
        except EngineError as error:
            field = str(getattr(error, "field", ""))
            form.add_error(field if field in form.fields else None, str(error))
        else:
            return redirect("job", job.pk)
    names = visible_tables(request.user).order_by("name").values_list("name", flat=True)[:200]
    source = {"source_table": form["source_table"].value() or "sales.orders"}
    body = {"name": form["name"].value() or "sales.orders_clone", "clone": source}
    act = {"address": "/api/v1/tables/", "body": body}
    context = {"form": form, "names": names, "act": act}
    return render(request, "tables/clone.html", context, status=400 if form.errors else 200)


def _request(request: HttpRequest, given: dict[str, Any]) -> Job:
    parameters = {
        "source_table": given["source_table"].strip(),
        "version": given["version"],
        "deep": bool(given["deep"]),
    }
    return request_create(
        name=given["name"].strip(),
        kind="clone",
        parameters=parameters,
        requested_by=request.user,  # type: ignore[arg-type]  # signed in
        description=given["description"],
    )


class DiscoverForm(forms.Form):
    root = forms.CharField(
        label="Root",
        max_length=2000,
        help_text="A directory, or an s3://, gs:// or az:// URL.",
        widget=forms.TextInput(attrs=MONO),
    )
    match = forms.CharField(
        label="Only paths that match",
        max_length=255,
        required=False,
        help_text="A pattern below the root, such as sales/*. Leave empty for every path.",
        widget=forms.TextInput(attrs=MONO),
    )
    naming = forms.CharField(
        label="Names",
        max_length=255,
        initial="{path}",
        help_text="{path} is the path with dots, {name} is its last part, and {parent} is the part "
        "before. Example: lake.{name}.",
        widget=forms.TextInput(attrs=MONO),
    )
    every_hours = forms.IntegerField(
        label="Search again after (hours)",
        required=False,
        min_value=1,
        max_value=MOST_HOURS,
        help_text="Leave empty to search once.",
    )
    registers = forms.BooleanField(
        label="Register what is found",
        required=False,
        help_text="Tables are registered on your behalf when a search is complete, as long as you "
        "may register tables.",
    )


@login_required
def discover(request: HttpRequest) -> HttpResponse:
    """Render the page; `run` in the query string names the shown search. A POST begins one."""
    must_maintain(request)
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
    context = {"form": form, "twin": "/api/v1/discoveries/"} | roots_context()
    context |= _discovery_context(request)
    is_fragment = bool(request.htmx) and request.method == "GET"  # type: ignore[attr-defined]
    template = "tables/_discovery.html" if is_fragment else "tables/discover.html"
    return render(request, template, context, status=status)


@require_POST
@login_required
def discover_act(request: HttpRequest, pk: int) -> HttpResponse:
    """Register chosen or all tables, continue the search, or delete it."""
    must_maintain(request)
    refuse_when_read_only()
    discovery = get_object_or_404(Discovery, pk=pk)
    act = request.POST.get("act", "")
    if act == "remove":
        discovery.delete()
        return redirect("table-discover")
    if act == "continue":
        go_on(discovery)
    elif act == "dismiss":
        messages.success(
            request,
            f"{dismiss(discovery)} dismissed. Tables that are found later are listed again.",
        )
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
        messages.warning(request, f"{len(rows) - len(places)} more tables are left to register.")


def _discovery_context(request: HttpRequest) -> dict[str, Any]:
    searches = Discovery.objects.select_related("requested_by")
    text = request.GET.get("run", "")
    is_id = is_row_id(text)
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
