"""The changes between two versions of a table: schema, properties, protocol, files, rows.

A worker compares the rows; the page shows those that differ.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from lakeui.catalog.differences import FILES_COMPARED, difference, versions_between
from lakeui.catalog.models import Preview, Table, TableKey
from lakeui.catalog.previews import (
    DIFFERENT_ROWS,
    PREVIEW_CONDITION,
    PREVIEW_NAMES,
    find_preview,
    is_waiting,
    names_text,
)
from lakeui.pages.conflicts.conflict_rows import is_number
from lakeui.pages.exports import export
from lakeui.pages.jobs.jobs import STOP_POLLING
from lakeui.pages.table_head import table_head, visible_table
from lakeui.pages.tables.history import COLUMNS
from lakeui.pages.tables.preview import ask_worker, condition_asked, get_query, is_gone, names_asked

_ROWS_A_PAGE = 50
_KINDS = ("changed", "removed", "added")

_VERSIONS_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class DiffCell:
    """A value before and after; `is_changed` if they differ."""

    before: str | None
    after: str | None
    is_number: bool
    is_changed: bool


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A differing row: added, removed or changed."""

    change: str
    cells: tuple[DiffCell, ...]


@dataclass(frozen=True, slots=True)
class DiffKind:
    """The number of rows changed, removed or added, and the address that filters them."""

    name: str
    count: int | None
    address: str
    is_shown: bool


@never_cache
@login_required
def row_diff(request: HttpRequest, pk: int, older: int, newer: int) -> HttpResponseBase:
    """Show the comparison on GET; have a worker compare on POST."""
    table = visible_table(request, pk)
    if older > newer:
        return redirect("table-row-diff", pk, newer, older)
    if older == newer or table.version is None or newer > table.version:
        msg = f"{table.name} has no versions {older} and {newer} to compare."
        raise Http404(msg)
    asked = _parse_query(request, table)
    if request.method == "POST":
        ask_worker(request, table, newer, older_version=older, **asked)
        return redirect(_address(table, older, newer, asked))
    stored = find_preview(table, version=newer, older_version=older, **asked)
    if "export" in request.GET and stored is not None:
        name = f"{table.name}-v{older}-v{newer}-rows"
        return export(_flat(stored), _columns(stored), request.GET["export"], name)
    waits = stored is not None and is_waiting(stored)
    context: dict[str, Any] = {
        "table": table,
        "older": older,
        "newer": newer,
        "version": newer,
        "where": asked["where"],
        "keys": names_text(asked["keys"]),
        "longest": PREVIEW_CONDITION,
        "longest_names": PREVIEW_NAMES,
        "address": _address(table, older, newer, asked),
        "preview": stored,
        "waits": waits,
        "is_gone": is_gone(stored),
        "row_limit": DIFFERENT_ROWS,
    } | _rows_context(request, stored)
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        status = 200 if waits else STOP_POLLING
        return render(request, "tables/_row_diff.html", context, status=status)
    if stored is not None:  # REST returns the comparison
        query = urlencode({name: value for name, value in _query_texts(asked).items() if value})
        address = f"/api/v1/tables/{table.pk}/diff/{older}...{newer}/rows/"
        context["twin"] = f"{address}?{query}" if query else address
    context["head"] = table_head(request, table, "history", newer)
    return render(request, "tables/row_diff.html", context)


def primary_key_columns(table: Table) -> list[str]:
    """Return the columns of the table's primary key, if one is declared."""
    key = table.keys.filter(kind=TableKey.Kind.PRIMARY).first()
    return list(key.columns) if key else []


def _parse_query(request: HttpRequest, table: Table) -> dict[str, Any]:
    """Return condition and keys; by default the declared primary key."""
    keys = (
        names_asked(request, "keys") if "keys" in get_query(request) else primary_key_columns(table)
    )
    return {"where": condition_asked(request), "keys": keys}


def _query_texts(asked: dict[str, Any]) -> dict[str, str]:
    return {"where": asked["where"], "keys": names_text(asked["keys"])}


def _address(table: Table, older: int, newer: int, asked: dict[str, Any]) -> str:
    """Return a comparison's page; empty `keys` are explicit, since a table may declare some."""
    given = _query_texts(asked)
    query = {"keys": given["keys"]} | ({"where": given["where"]} if given["where"] else {})
    return f"{reverse('table-row-diff', args=[table.pk, older, newer])}?{urlencode(query)}"


def _rows_context(request: HttpRequest, stored: Preview | None) -> dict[str, Any]:
    if stored is None:
        return {}
    show = request.GET.get("show", "")
    rows = [row for row in stored.rows if show not in _KINDS or row["change"] == show]
    page = Paginator(rows, _ROWS_A_PAGE).get_page(request.GET.get("page"))
    numbers = [is_number(column) for column in stored.columns]
    names = [str(column["name"]) for column in stored.columns]
    counts = [stored.answer.get(name) for name in _KINDS]
    total = sum(counts) if None not in counts else None
    return {
        "columns": list(zip(stored.columns, numbers, strict=True)),
        "page": page,
        "lines": [_line(row, names, numbers) for row in page.object_list],
        "kinds": [
            DiffKind(name, count, _show_link(request, name), show == name)
            for name, count in zip(_KINDS, counts, strict=True)
        ],
        "total": total,
        "all_address": _show_link(request, ""),
        "shows_all": show not in _KINDS,
        "is_cut": total is None or total > len(stored.rows),
        "has_changed": bool(stored.answer.get("changed")),
    }


def _show_link(request: HttpRequest, kind: str) -> str:
    query = request.GET.copy()
    query.pop("page", None)
    query.pop("show", None)
    if kind:
        query["show"] = kind
    return f"?{query.urlencode()}"


def _line(row: dict[str, Any], names: list[str], numbers: list[bool]) -> DiffRow:
    before = row["before"] or [None] * len(names)
    after = row["after"] or [None] * len(names)
    changed = set(row["changed"])
    return DiffRow(
        row["change"],
        tuple(
            DiffCell(old, new, number, name in changed)
            for old, new, number, name in zip(before, after, numbers, names, strict=True)
        ),
    )


def _flat(stored: Preview) -> Iterator[tuple[str, str, list[str | None]]]:
    """Yield a line for each row before and after the change."""
    for row in stored.rows:
        for side in ("before", "after"):
            if row[side] is not None:
                yield row["change"], side, row[side]


def _columns(stored: Preview) -> dict[str, Any]:
    names = [str(column["name"]) for column in stored.columns]
    values = {name: _value_at(place) for place, name in enumerate(names)}
    change, side = (_free_name(name, values) for name in ("_change", "_side"))
    return {change: lambda line: line[0], side: lambda line: line[1]} | values


def _free_name(name: str, taken: Container[str]) -> str:
    """Prefix the name with underscores until no column of the table has it."""
    while name in taken:
        name = f"_{name}"
    return name


def _value_at(place: int) -> Any:  # noqa: ANN401 - a function of a line
    return lambda line: line[2][place]


@login_required
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect from two ticked versions to their page."""
    table = visible_table(request, pk)
    ticked = [text for text in request.GET.getlist("v") if text.isascii() and text.isdigit()]
    versions = sorted({int(text) for text in ticked if len(text) < 19})
    if len(versions) < 2:
        return redirect("table-history", table.pk)
    return redirect("table-diff", table.pk, versions[0], versions[-1])


@login_required
def diff(request: HttpRequest, pk: int, older: int, newer: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    if older > newer:
        return redirect("table-diff", pk, newer, older)
    if older == newer:
        return redirect("table-version", pk, newer)
    comparison = difference(table, older, newer)
    if comparison is None:
        msg = f"The mirror holds no version of {table.name} from {older + 1} to {newer}."
        raise Http404(msg)
    between = versions_between(table, older, newer).order_by("-version")
    if "export" in request.GET:
        name = f"{table.name}-v{older}-v{newer}"
        return export(between, COLUMNS, request.GET["export"], name)
    context: dict[str, Any] = {
        "table": table,
        "head": table_head(request, table, "history", here=newer),
        "found": comparison,
        "compared": FILES_COMPARED,
        "earlier": _find_neighbor_span(table, older, newer, -1),
        "later": _find_neighbor_span(table, older, newer, +1),
        "versions": Paginator(between, _VERSIONS_A_PAGE).get_page(request.GET.get("page")),
        "twin": f"/api/v1/tables/{table.pk}/diff/{older}...{newer}/",
    }
    return render(request, "tables/diff.html", context)


def _find_neighbor_span(
    table: Table, older: int, newer: int, direction: int
) -> tuple[int, int] | None:
    """Return the span of equal width right before or after; None if it is not mirrored."""
    width = newer - older
    first, last = older + direction * width, newer + direction * width
    inside = first >= (table.earliest_version or 0) and last <= (table.version or 0)
    return (first, last) if inside else None
