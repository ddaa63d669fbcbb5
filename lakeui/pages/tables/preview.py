"""Some rows of a table at a version. The page never opens the table: a worker reads them."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from kombu.exceptions import OperationalError

from engine.errors import ExpressionError
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.models import Preview, Table
from lakeui.catalog.previews import (
    PREVIEW_CONDITION,
    PREVIEW_NAMES,
    PREVIEW_ROWS,
    ask_for_preview,
    check_condition,
    find_preview,
    is_waiting,
    names_in,
    names_text,
)
from lakeui.catalog.reads import TooManyReadsError
from lakeui.pages.conflicts.conflict_rows import is_number
from lakeui.pages.exports import Columns, export
from lakeui.pages.jobs.jobs import STOP_POLLING
from lakeui.pages.table_head import table_head, visible_table
from lakeui.task_names import NO_WORKER_ASKED

VERSION_IS_GONE = frozenset(
    {
        "DELTA_FILE_NOT_FOUND_DETAILED",
        "DELTA_VERSION_NOT_FOUND",
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
        "LAKE_FILE_MISSING",
        "LAKE_LOG_CLEANED",
    }
)
"""Errors of a version that can no longer be read."""
_SIGNS = ("-", "+")  # before the name of a column: how it is sorted


@never_cache
@login_required
def preview(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Show the rows on GET; have a worker read them on POST."""
    table = visible_table(request, pk)
    version, asked = version_asked(request, table), _parse_query(request)
    if request.method == "POST":
        return _ask(request, table, version, asked)
    stored = find_preview(table, version=version, **asked) if version is not None else None
    if "export" in request.GET and stored is not None:
        name = f"{table.name}-v{version}-rows"
        return export(stored.rows, _columns(stored), request.GET["export"], name)
    waits = stored is not None and is_waiting(stored)
    context: dict[str, Any] = {
        "table": table,
        "version": version,
        "where": asked["where"],
        "wanted": names_text(asked["wanted"]),
        "longest": PREVIEW_CONDITION,
        "longest_names": PREVIEW_NAMES,
        "address": _address(request, version, asked),
        "preview": stored,
        "waits": waits,
        "is_gone": is_gone(stored),
        "row_limit": PREVIEW_ROWS,
    }
    context |= _profile(request, table, version, asked) | _sheet(request, stored)
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        status = 200 if waits or context["profile_waits"] else STOP_POLLING
        return render(request, "tables/_preview.html", context, status=status)
    if stored is not None:  # REST returns the rows
        context["twin"] = f"/api/v1/tables/{table.pk}/preview/{_query(version, asked)}"
    context["head"] = table_head(request, table, "preview", version)
    context |= _version_context(table, version)
    return render(request, "tables/preview.html", context)


def is_gone(stored: Preview | None) -> bool:
    """Whether the version can no longer be read."""
    return stored is not None and stored.error_code in VERSION_IS_GONE


def get_query(request: HttpRequest) -> QueryDict:
    """Return a form's own values, without its address; on GET those of the address."""
    return request.POST if request.method == "POST" else request.GET


def condition_asked(request: HttpRequest) -> str:
    """Return the condition of the rows, "" for all; 404 for an invalid one."""
    return _text_asked(request, "where", PREVIEW_CONDITION)


def names_asked(request: HttpRequest, name: str) -> list[str]:
    """Return columns by name; 404 for too many."""
    return names_in(_text_asked(request, name, PREVIEW_NAMES))


def _text_asked(request: HttpRequest, name: str, longest: int) -> str:
    text = get_query(request).get(name, "").strip()
    if len(text) > longest or "\0" in text:
        msg = "The value is too long."
        raise Http404(msg)
    return text


def _parse_query(request: HttpRequest) -> dict[str, Any]:
    """Return the requested rows, named as in `find_preview`."""
    return {"where": condition_asked(request), "wanted": names_asked(request, "columns")}


def _profile(
    request: HttpRequest, table: Table, version: int | None, asked: dict[str, Any]
) -> dict[str, Any]:
    """Return the known profile of the requested column."""
    name = _text_asked(request, "profile", PREVIEW_NAMES)
    stored = None
    if name and version is not None:
        stored = find_preview(table, version=version, where=asked["where"], profiled=name)
    waits = stored is not None and is_waiting(stored)
    return {"profiled": name, "profile": stored, "profile_waits": waits}


def _version_context(table: Table, version: int | None) -> dict[str, Any]:
    """Return the mirrored version, its neighbors, and the VACUUM that may have deleted files."""
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


def _sheet(request: HttpRequest, stored: Preview | None) -> dict[str, Any]:
    """Return columns and cells, each with whether it is a number; sorted if requested."""
    if stored is None:
        return {}
    numbers = [is_number(column) for column in stored.columns]
    names = [str(column["name"]) for column in stored.columns]
    sort = request.GET.get("sort", "")
    rows, descending = list(stored.rows), sort.startswith("-")
    if (by := sort[1:] if sort[:1] in _SIGNS else sort) in names:
        place = names.index(by)
        rows = sort_rows(rows, place, numbers[place], descending=descending)
    marks = {by: "descending" if descending else "ascending"}
    return {
        "columns": [
            SheetColumn(column, number, marks.get(name, ""), _toggle_sort(request, name, sort))
            for column, number, name in zip(stored.columns, numbers, names, strict=True)
        ],
        "lines": [list(zip(row, numbers, strict=False)) for row in rows],
    }


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A column of the sheet: whether it is a number, its sort order, and the address to sort it."""

    column: dict[str, str]
    is_number: bool
    sorted: str
    address: str


def sort_rows(
    rows: list[list[str | None]], place: int, is_number: bool, *, descending: bool
) -> list[list[str | None]]:
    """Sort rows by one of their texts, numbers by value; null first, as Spark orders it."""

    def key(row: list[str | None]) -> tuple[int, Decimal | str]:
        text = row[place]
        if text is None:
            return 0, ""
        return _rank(text) if is_number else (1, text)

    return sorted(rows, key=key, reverse=descending)


def _rank(text: str) -> tuple[int, Decimal | str]:
    """NaN is above every number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return 3, text
    return (2, "") if number.is_nan() else (1, number)


def _toggle_sort(request: HttpRequest, name: str, sort: str) -> str:
    query = request.GET.copy()
    ascending = f"+{name}" if name[:1] in _SIGNS else name  # else `-x` would be x, descending
    query["sort"] = f"-{name}" if sort == ascending else ascending
    return f"?{query.urlencode()}"


def _columns(stored: Preview) -> Columns:
    """Return each column's texts, by its name."""
    names = [str(column["name"]) for column in stored.columns]
    return {name: itemgetter(place) for place, name in enumerate(names)}


def _address(request: HttpRequest, version: int | None, asked: dict[str, Any]) -> str:
    """Return the page's query string."""
    more = {name: get_query(request).get(name) for name in ("profile", "sort")}
    return _query(version, asked, **more)


def _query(version: int | None, asked: dict[str, Any], **more: str | None) -> str:
    given = {
        "version": version,
        "where": asked["where"],
        "columns": names_text(asked["wanted"]),
        **more,
    }
    parts = {name: value for name, value in given.items() if value not in (None, "")}
    return f"?{urlencode(parts)}" if parts else ""


def _ask(
    request: HttpRequest, table: Table, version: int | None, asked: dict[str, Any]
) -> HttpResponseBase:
    if version is None:
        msg = "The table has no version yet."
        raise Http404(msg)
    profiled = _text_asked(request, "profile", PREVIEW_NAMES)
    if profiled and request.POST.get("ask") != "rows":
        request_of_rows = {"where": asked["where"], "profiled": profiled}
    else:
        request_of_rows = asked
    ask_worker(request, table, version, **request_of_rows)
    return redirect(reverse("table-preview", args=[table.pk]) + _address(request, version, asked))


def ask_worker(request: HttpRequest, table: Table, version: int, **request_of_rows: Any) -> None:  # noqa: ANN401
    """Have a worker read rows, or tell the reader why none was asked."""
    try:
        check_condition(table, request_of_rows["where"])
        ask_for_preview(table, version, by=Reader(request.user).account, **request_of_rows)
    except TooManyReadsError as error:
        messages.error(request, str(error))
    except ExpressionError as error:
        messages.error(request, f"The condition is not valid. {error}")
    except (OperationalError, OSError):
        messages.error(request, NO_WORKER_ASKED)


def version_asked(request: HttpRequest, table: Table) -> int | None:
    """Return the requested version, else the latest mirrored; 404 if it is not mirrored."""
    text = get_query(request).get("version", "")
    if not text:
        return table.version
    is_number = is_row_id(text)
    if not is_number or table.version is None or int(text) > table.version:
        msg = "The table does not have this version."
        raise Http404(msg)
    return int(text)
