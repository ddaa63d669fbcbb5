"""Whether a table takes part in row-level concurrency, condition by condition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Table
from lakeui.conflicts.eligibility.conditions import ConditionLine
from lakeui.conflicts.eligibility.report import EligibilityReport, eligibility_report
from lakeui.conflicts.eligibility.runtime_matrix import RuntimeCell, RuntimeColumn
from lakeui.jobs.earlier_runs import throughput_of
from lakeui.jobs.streams import streams_reading
from lakeui.pages.table_head import table_head, visible_table

FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of the bar, from `x` on, in per cent; `mark` is its mark in the table."""

    label: str
    mark: str
    css: str
    count: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class FixLine:
    """A condition, and the page for planning its rewrite."""

    line: ConditionLine
    plan: str = ""


@login_required
def eligibility(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    head = table_head(request, table, "eligibility")
    readers = streams_reading(table, request.user)
    report = eligibility_report(table, throughput_of(table), readers, Reader(request.user))
    context = {
        "table": table,
        "head": head,
        "report": report,
        "twin": f"/api/v1/tables/{table.pk}/eligibility/",
    }
    if report is not None:
        context |= _context(request, table, report)
    return render(request, "tables/eligibility.html", context)


def _context(request: HttpRequest, table: Table, report: EligibilityReport) -> dict[str, Any]:
    is_fixed = request.GET.get("state") == FIXED and not report.eligibility.eligible
    shown = report.mended if is_fixed else report.runtimes
    return {
        "groups": (
            ("The table", [_fix_line(line, table) for line in report.of_table]),
            (_writes_title(report), [_fix_line(line, table) for line in report.of_writes]),
        ),
        "has_fixes": any(line.fix or line.cost_text or line.cost for line in _lines(report)),
        "bar": list(_bar(report)),
        "bar_total": sum(count for *_, count in _counts(report)),
        "is_fixed": is_fixed,
        "columns": shown,
        "rows": [_row(cells, shown) for cells in zip(*(c.cells for c in shown), strict=True)],
        "later": report.mended,
        "table_holding": sum(line.state == "holds" for line in report.of_table),
    }


def _lines(report: EligibilityReport) -> Iterator[ConditionLine]:
    yield from report.of_table
    yield from report.of_writes


def _row(
    cells: Sequence[RuntimeCell], columns: Sequence[RuntimeColumn]
) -> tuple[str, list[tuple[RuntimeCell, bool]]]:
    """Return a condition on every runtime, each with whether that runtime wrote here."""
    used = [column.writes > 0 for column in columns]
    return cells[0].condition, list(zip(cells, used, strict=True))


def _writes_title(report: EligibilityReport) -> str:
    return f"Overlapping writes in 30 days: {report.overlapping_writes:,} of {report.writes:,}"


def _fix_line(line: ConditionLine, table: Table) -> FixLine:
    if not line.statement:
        return FixLine(line)
    asked = urlencode({"table": table.pk, "sql": line.statement})
    return FixLine(line, f"{reverse('job-new')}?{asked}")


def _bar(report: EligibilityReport) -> Iterator[BarSegment]:
    counts = _counts(report)
    total, at = sum(count for *_, count in counts), 0.0
    for label, mark, css, count in counts:
        width = 100 * count / total if total else 0.0
        yield BarSegment(label, mark, css, count, at, width)
        at += width


def _counts(report: EligibilityReport) -> list[tuple[str, str, str, int]]:
    aborted_writes = report.aborted_writes
    if report.eligibility.eligible:
        return [
            ("resolved", "joint", "seg-pass", report.eligibility.avoided_lately),
            ("aborted", "x", "seg-lost", aborted_writes.aborted),
        ]
    return [
        ("would pass at row level", "joint", "seg-pass", aborted_writes.passes),
        ("would still be aborted", "x", "seg-lost", aborted_writes.still_aborted),
        ("undecidable", "what", "seg-what", aborted_writes.undecidable),
    ]
