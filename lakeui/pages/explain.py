"""An error that somebody pastes: what it says, who won, what to do."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from engine.errors import Remedy, RequestError
from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.models import Table
from lakeui.conflicts.reports.history import PairHistory, pair_history
from lakeui.conflicts.reports.links import LinkedReport, explain_report, record_report
from lakeui.conflicts.reports.remedies import OF_EVERY_RETRY, VECTORS
from lakeui.conflicts.reports.verdict import verdict_of
from lakeui.pages import units
from lakeui.pages.pasted import fact_lines, missing_facts, pieces_of
from lakeui.pages.samples import HERE, SAMPLES, sample_text

OPERATIONS = ("MERGE", "UPDATE", "DELETE", "WRITE", "OPTIMIZE", "STREAMING UPDATE")
_MAX_VERSION = 2**53


@dataclass(frozen=True, slots=True)
class Advice:
    """A remedy with what is on record of it, and where it can be followed."""

    action: str
    reason: str
    note: str = ""
    link: str = ""
    link_words: str = ""


@login_required
def explain(request: HttpRequest) -> HttpResponse:
    """A POST that changes nothing, unless it asks to keep what was found."""
    sample = request.GET.get("sample", "")
    text = request.POST.get("text", "") or sample_text(sample, request.user)
    context: dict[str, Any] = {
        "text": text,
        "samples": SAMPLES,
        "sample": sample,
        "characters": len(text),
        "lines": len(text.splitlines()),
        "act": {"address": "/api/v1/conflicts/explain/", "body": {"text": text or SAMPLES[1].text}},
    }
    if not text and request.method != "POST":
        context["nothing_here"] = sample == HERE
        return render(request, "conflicts/explain.html", context)
    chosen = _chosen(request)
    try:
        linked = explain_report(text, visible_tables(request.user), chosen)
    except RequestError as error:
        return render(request, "conflicts/explain.html", context | {"error": error}, status=400)
    if request.POST.get("step") == "record":
        return _keep(request, linked)
    context |= {"chosen": chosen, "pieces": pieces_of(text, linked.report.marks)}
    return render(request, "conflicts/explain.html", context | _found(request, linked))


def _found(request: HttpRequest, linked: LinkedReport) -> dict[str, Any]:
    found, pair = linked.report.conflict, pair_history(linked)
    return {
        "linked": linked,
        "found": found,
        "verdict": verdict_of(linked),
        "facts": fact_lines(linked),
        "missing": missing_facts(linked).items() if found else (),
        "pair": pair,
        "advice": _advice(linked, pair),
        "operations": OPERATIONS,
        "guess": _guess(linked),
        "may_record": found is not None and may(request.user, "write", linked.table),
        "report_body": {
            "text": "…",
            "table": linked.table.name if linked.table else "",
            "record": True,
        },
    }


def _guess(linked: LinkedReport) -> int | None:
    """The read version, where the message does not say it: at the latest the one before the winner."""
    version = linked.winning_version
    return version - 1 if version else None


def _advice(linked: LinkedReport, pair: PairHistory | None) -> list[Advice]:
    """The remedies; one that the table has already goes last."""
    found, table = linked.report.conflict, linked.table
    if found is None:
        return []
    on_already = table is not None and table.row_level_eligible
    ranked = sorted(found.remedies, key=lambda each: on_already and each == VECTORS)
    return [_advised(each, linked, pair) for each in ranked]


def _advised(remedy: Remedy, linked: LinkedReport, pair: PairHistory | None) -> Advice:
    note = link = words = ""
    if remedy in OF_EVERY_RETRY and pair is not None and pair.lost_lately:
        note = f"The pair lost {_times(pair.lost_lately)} here in 24 h, so this will come back."
    if remedy == VECTORS and linked.table is not None:
        link = reverse("table-eligibility", args=[linked.table.pk])
        note = _by_rows(linked.table, pair)
        words = "See eligibility" if linked.table.row_level_eligible else "See the cost"
    return Advice(remedy.action, remedy.reason, note, link, words)


def _by_rows(table: Table, pair: PairHistory | None) -> str:
    if table.row_level_eligible:
        return "On already: the table is eligible."
    if pair is None or not pair.lost:
        return f"A rewrite of {units.format_bytes(table.size_bytes)} where its layout must change."
    unknown = f"; of {pair.undecidable} what is recorded does not tell" if pair.undecidable else ""
    lost = units.format_count(pair.lost)
    return f"30 days: {pair.passes} of {lost} losses of this pair would have passed{unknown}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{units.format_count(number)} times"


def _keep(request: HttpRequest, linked: LinkedReport) -> HttpResponse:
    if not may(request.user, "write", linked.table):
        messages.error(request, "Keeping a report needs the role operator.")
        return redirect("explain")
    read_version = request.POST.get("read_version", "").strip().removeprefix("v")
    kept = record_report(
        linked,
        request.user,  # type: ignore[arg-type]  # signed in
        read_version=_version(read_version),
        operation=request.POST.get("operation", "").strip().upper(),
    )
    if kept is None:
        messages.error(request, "There is no conflict in it to keep.")
        return redirect("explain")
    messages.success(request, "Kept among the conflicts as reported.")
    return redirect("conflict", kept.pk)


def _version(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) < 17
    return int(text) if is_number and int(text) <= _MAX_VERSION else None


def _chosen(request: HttpRequest) -> Table | None:
    name = request.POST.get("table", "").strip()
    return visible_tables(request.user).filter(name=name).first() if name else None
