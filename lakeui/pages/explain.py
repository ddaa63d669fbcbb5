"""An error that somebody pastes: what it says, who won, what to do."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.errors import RequestError
from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.models import Table
from lakeui.conflicts.report_links import LinkedReport, explain_report, record_report

EXAMPLE = (
    "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] Files were added to "
    "partition [date=2026-11-02] by a concurrent update. Please try the operation again.\n"
    'Conflicting commit: {"timestamp":1793620800000,"operation":"MERGE","operationParameters":'
    '{"predicate":"t.id = s.id"},"readVersion":6,"isolationLevel":"WriteSerializable",'
    '"isBlindAppend":false}'
)


@login_required
def explain(request: HttpRequest) -> HttpResponse:
    """A POST that changes nothing, unless it asks to keep what was found."""
    text = request.POST.get("text", "")
    context: dict[str, Any] = {
        "text": text,
        "example": EXAMPLE,
        "act": {"address": "/api/v1/conflicts/explain/", "body": {"text": text or EXAMPLE}},
    }
    if request.method != "POST":
        return render(request, "conflicts/explain.html", context)
    tables = visible_tables(request.user)
    chosen = _chosen(request)
    try:
        linked = explain_report(text, tables, chosen)
    except RequestError as error:
        return render(request, "conflicts/explain.html", context | {"error": error}, status=400)
    if request.POST.get("step") == "record":
        return _keep(request, linked)
    context |= {
        "linked": linked,
        "found": linked.report.conflict,
        "chosen": chosen,
        "may_record": may(request.user, "write", linked.table),
    }
    return render(request, "conflicts/explain.html", context)


def _keep(request: HttpRequest, linked: LinkedReport) -> HttpResponse:
    if not may(request.user, "write", linked.table):
        messages.error(request, "Keeping a report needs the role operator.")
        return redirect("explain")
    kept = record_report(linked, request.user)  # type: ignore[arg-type]  # signed in
    if kept is None:
        messages.error(request, "There is no conflict in it to keep.")
        return redirect("explain")
    messages.success(request, "Kept among the conflicts as reported.")
    return redirect("conflict", kept.pk)


def _chosen(request: HttpRequest) -> Table | None:
    name = request.POST.get("table", "").strip()
    return visible_tables(request.user).filter(name=name).first() if name else None
