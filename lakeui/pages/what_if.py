"""A table's own history, held against another level or another granularity."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from engine.conflicts.isolation import IsolationLevel
from lakeui.catalog.models import Table
from lakeui.conflicts.level_impact import PROMISES
from lakeui.conflicts.what_if import CommitVerdict, Verdict, latest_versions, what_if
from lakeui.pages.table_head import table_head, visible_table

SPANS = (50, 100, 200)


@login_required
def what_if_page(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    return render(request, "tables/what_if.html", _context(request, table))


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    level, row_level = _asked(request, table)
    span = _span(request)
    answer = what_if(table, level, row_level=row_level, versions=latest_versions(table, span))
    lost_now = [each for each in answer.conflicts if each.kind == "escaped"]
    return {
        "table": table,
        "head": table_head(request, table, "what-if"),
        "answer": answer,
        "levels": PROMISES,
        "level": str(level),
        "row_level": row_level,
        "is_as_it_is": str(level) == table.isolation_level
        and row_level == table.row_level_eligible,
        "span": span,
        "spans": SPANS,
        "met_commits": sorted((e for e in answer.commits if e.met), key=_worst_first),
        "conflicts": sorted(answer.conflicts, key=lambda each: -each.conflict_id),
        "commit_counts": _counts(each.verdict for each in answer.commits),
        "conflict_counts": _counts(each.verdict for each in answer.conflicts),
        "saved": sum(each.verdict == Verdict.PASSES for each in lost_now),
        "twin": f"/api/v1/tables/{table.pk}/what-if/?level={level}&row_level={str(row_level).lower()}",
    }


def _asked(request: HttpRequest, table: Table) -> tuple[IsolationLevel, bool]:
    """The setting asked for; without one, the table's own."""
    level = request.GET.get("level") or table.isolation_level or "WriteSerializable"
    rows = request.GET.get("row_level", "")
    if level not in PROMISES or rows not in ("", "true", "false"):
        msg = "There is no such setting."
        raise Http404(msg)
    return IsolationLevel(level), rows == "true" if rows else table.row_level_eligible


def _span(request: HttpRequest) -> int:
    text = request.GET.get("span", "")
    if text and text not in map(str, SPANS):
        msg = "There is no such number of versions to look at."
        raise Http404(msg)
    return int(text or SPANS[1])


def _worst_first(each: CommitVerdict) -> tuple[int, int]:
    order = (Verdict.CONFLICT, Verdict.UNDECIDABLE, Verdict.PASSES)
    return order.index(each.verdict), -each.version


def _counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    found = Counter(map(str, verdicts))
    return {name: found[name] for name in ("passes", "conflict", "undecidable")}
