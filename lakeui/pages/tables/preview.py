"""Some rows of a table at a version. The page never opens the table: a worker reads them."""

from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from kombu.exceptions import OperationalError

from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import Preview, Table
from lakeui.catalog.previews import PREVIEW_CONDITION, PREVIEW_ROWS, ask_for_preview, is_waiting
from lakeui.pages.conflicts.conflict_rows import is_number
from lakeui.pages.exports import Columns, export
from lakeui.pages.jobs.jobs import STOP_POLLING
from lakeui.pages.table_head import table_head, visible_table

VERSION_IS_GONE = frozenset(
    {
        "DELTA_VERSION_NOT_FOUND",
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
        "LAKE_FILE_MISSING",
        "LAKE_LOG_CLEANED",
    }
)
"""Errors of a version that can no longer be read."""


@never_cache
@login_required
def preview(request: HttpRequest, pk: int) -> HttpResponseBase:
    """GET shows what was read; POST has a worker read it."""
    table = visible_table(request, pk)
    version, where = _version(request, table), _where(request)
    if request.method == "POST":
        return _ask(request, table, version, where)
    stored = None
    if version is not None:
        stored = Preview.objects.filter(table=table, version=version, where=where).first()
    if "export" in request.GET and stored is not None:
        name = f"{table.name}-v{version}-rows"
        return export(stored.rows, _columns(stored), request.GET["export"], name)
    waits = stored is not None and is_waiting(stored)
    context: dict[str, Any] = {
        "table": table,
        "version": version,
        "where": where,
        "longest": PREVIEW_CONDITION,
        "address": _address(version, where),
        "preview": stored,
        "waits": waits,
        "is_gone": stored is not None and stored.error_code in VERSION_IS_GONE,
        "row_limit": PREVIEW_ROWS,
    } | _sheet(stored)
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        status = 200 if waits else STOP_POLLING
        return render(request, "tables/_preview.html", context, status=status)
    context["twin"] = f"/api/v1/tables/{table.pk}/preview/{_address(version, where)}"
    context["head"] = table_head(request, table, "preview", version)
    context |= _around(table, version)
    return render(request, "tables/preview.html", context)


def _around(table: Table, version: int | None) -> dict[str, Any]:
    """The version itself as mirrored, its neighbours, and the VACUUM that may have cost it files."""
    if version is None:
        return {}
    commits = table.commits.defer("raw").order_by("version")
    around = commits.values_list("version", flat=True)
    return {
        "commit": commits.filter(version=version).first(),
        "previous": around.filter(version__lt=version).last(),
        "next": around.filter(version__gt=version).first(),
        "vacuum": commits.filter(version__gt=version, operation="VACUUM END").last(),
    }


def _sheet(stored: Preview | None) -> dict[str, Any]:
    """The columns and the cells of each row, each with whether it is a number."""
    if stored is None:
        return {}
    numbers = [is_number(column) for column in stored.columns]
    return {
        "columns": list(zip(stored.columns, numbers, strict=True)),
        "lines": [list(zip(row, numbers, strict=False)) for row in stored.rows],
    }


def _columns(stored: Preview) -> Columns:
    """Each column's texts, by its name."""
    names = [str(column["name"]) for column in stored.columns]
    return {name: itemgetter(place) for place, name in enumerate(names)}


def _address(version: int | None, where: str) -> str:
    """The query string of what is shown."""
    given = {"version": version, "where": where}
    parts = {name: value for name, value in given.items() if value not in (None, "")}
    return f"?{urlencode(parts)}" if parts else ""


def _where(request: HttpRequest) -> str:
    """The condition of the rows, "" for all; 404 for one that nobody would read."""
    text = (request.POST.get("where") or request.GET.get("where", "")).strip()
    if len(text) > PREVIEW_CONDITION or "\0" in text:
        msg = "The condition is too long."
        raise Http404(msg)
    return text


def _ask(request: HttpRequest, table: Table, version: int | None, where: str) -> HttpResponseBase:
    if version is None:
        msg = "The table has no version yet."
        raise Http404(msg)
    try:
        ask_for_preview(table, version, where)
    except (OperationalError, OSError):
        Preview.objects.filter(table=table, version=version, where=where, read_at=None).delete()
        messages.error(request, "The broker cannot be reached, so no worker was asked.")
    return redirect(reverse("table-preview", args=[table.pk]) + _address(version, where))


def _version(request: HttpRequest, table: Table) -> int | None:
    """The one requested, else the latest mirrored; 404 for one that the mirror has not."""
    text = request.GET.get("version") or request.POST.get("version", "")
    if not text:
        return table.version
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS
    if not is_number or table.version is None or int(text) > table.version:
        msg = "The table has no such version."
        raise Http404(msg)
    return int(text)
