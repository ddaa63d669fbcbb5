"""One field that finds tables, versions, jobs and conflicts."""

import re
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from lakeui.catalog.access import visible_tables
from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.filters import visible_conflicts
from lakeui.jobs.filters import visible_jobs

_SHOWN = 12
_VERSION = re.compile(rf"^(?:(?P<table>[\w.-]+)[@\s]+)?v(?P<version>\d{{1,{MAX_ID_DIGITS}}})$")


@login_required
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()[:200]
    found = _found(request, text) if text else {}
    sure = _only_one(found, text)
    if sure is not None:
        return redirect(sure[0], *sure[1:])
    return render(request, "search.html", {"search_text": text, "found": found, "shown": _SHOWN})


def _found(request: HttpRequest, text: str) -> dict[str, Any]:
    tables = visible_tables(request.user)
    jobs = visible_jobs(request.user).select_related("table")
    conflicts = visible_conflicts(request.user).select_related("table")
    named = tables.filter(
        Q(name__icontains=text) | Q(uri__icontains=text) | Q(description__icontains=text)
    )
    said = Q(exception__icontains=text) | Q(code__icontains=text) | Q(message__icontains=text)
    asked = Q(statement__icontains=text) | Q(error_message__icontains=text)
    job_id = _uuid(text)
    if _VERSION.match(text):  # nobody looks for a word that reads like a version
        jobs, conflicts = jobs.none(), conflicts.none()
    return {
        "tables": list(named.order_by("name")[:_SHOWN]),
        "versions": _versions(tables, text),
        "jobs": list((jobs.filter(pk=job_id) if job_id else jobs.filter(asked))[:_SHOWN]),
        "conflicts": list(conflicts.filter(said | _numbered(text))[:_SHOWN]),
    }


def _versions(tables: QuerySet[Table], text: str) -> list[Commit]:
    match = _VERSION.match(text)
    commits = Commit.objects.filter(table__in=tables).select_related("table").defer("raw")
    if match is None:
        return list(commits.filter(txn_id=text)[:_SHOWN])
    commits = commits.filter(version=int(match["version"]))
    if match["table"]:
        commits = commits.filter(table__name__icontains=match["table"])
    return list(commits.order_by("table__name")[:_SHOWN])


def _numbered(text: str) -> Q:
    number = text.removeprefix("c-")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_ID_DIGITS
    return Q(pk=int(number)) if is_number and text != number else Q(pk__in=())


def _only_one(found: dict[str, Any], text: str) -> tuple[Any, ...] | None:
    """Where to go at once: a table, version, job or conflict that was named exactly."""
    exact = [table for table in found.get("tables", ()) if table.name == text]
    if exact:
        return "table", exact[0].pk
    if _uuid(text) and found.get("jobs"):
        return "job", found["jobs"][0].pk
    everything = [item for items in found.values() for item in items]
    if len(everything) == 1 and found["versions"]:
        return "table-version", everything[0].table_id, everything[0].version
    return None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
