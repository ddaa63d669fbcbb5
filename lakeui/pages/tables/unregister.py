"""Unregistering a table: the records to be deleted, then its name as confirmation."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.errors import EngineError
from lakeui.catalog.access import ACTIONS, may
from lakeui.catalog.models import Table
from lakeui.conflicts.unregistration import count_records, right_to_unregister, unregister_table
from lakeui.pages.table_head import visible_table


@login_required
def unregister(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    needed = right_to_unregister(table)
    if not may(request.user, needed, table):
        msg = f"Unregistering {table.name} needs the role {ACTIONS[needed].label} there."
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
        return f"Type {table.name} to confirm; nothing was forgotten."
    name = table.name
    by: User = request.user  # type: ignore[assignment]  # signed in
    unregister_table(table, by, request.POST.get("reason", "")[:2000])
    messages.success(request, f"{name} is not on the list any more. Its files were not touched.")
    return ""
