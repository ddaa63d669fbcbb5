"""One search field for tables, columns, versions, jobs, conflicts, writers and pages."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from lakeui.monitoring import search as room
from lakeui.monitoring.search import SearchResults, uuid_in
from lakeui.pages.overview.palette import list_matching_entries


@login_required
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()[: room.MAX_TEXT]
    results = room.search(request.user, text)
    entries = list_matching_entries(request, text) if text or request.htmx else []  # type: ignore[attr-defined]  # by its middleware
    if request.htmx:  # type: ignore[attr-defined]
        context = {"search_text": text, "found": results, "offered": entries}
        return render(request, "overview/_suggestions.html", context)
    sure = _only_one(results, text)
    if sure is not None:
        return redirect(sure[0], *sure[1:])
    context = {
        "search_text": text,
        "found": results,
        "offered": entries,
        "shown": room.SHOWN,
        "twin": f"/api/v1/search/?{urlencode({'q': text})}",
    }
    return render(request, "overview/search.html", context)


def _only_one(results: SearchResults, text: str) -> tuple[Any, ...] | None:
    """Return the target of an exact name: a table, version, job or conflict."""
    exact = [table for table in results.tables if table.name == text]
    if exact:
        return "table", exact[0].pk
    if uuid_in(text) and results.jobs:
        return "job", results.jobs[0].pk
    if results.count == 1 and results.versions:
        return "table-version", results.versions[0].table_id, results.versions[0].version
    return None
