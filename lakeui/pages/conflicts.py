"""Writes that met: all of them, and one with both sides."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render

from engine.conflicts.checker import CHECKS
from lakeui.catalog.models import Commit, CommitFile
from lakeui.conflicts.filters import ConflictFilter, to_list, visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.pages.exports import export
from lakeui.pages.list_table import one_table
from lakeui.pages.listing import Listing
from lakeui.pages.table_head import table_head

COLUMNS = {
    "id": lambda c: c.pk,
    "occurred_at": lambda c: c.occurred_at,
    "table": lambda c: c.table.name if c.table else None,
    "kind": lambda c: c.kind,
    "exception": lambda c: c.exception,
    "code": lambda c: c.code,
    "subclass": lambda c: c.subclass,
    "rule": lambda c: c.rule,
    "current_operation": lambda c: c.current_operation,
    "current_user_name": lambda c: c.current_user_name,
    "current_predicate": lambda c: c.current_predicate,
    "read_version": lambda c: c.read_version,
    "attempted_version": lambda c: c.attempted_version,
    "winning_version": lambda c: c.winning_version,
    "winner_operation": lambda c: c.winner_operation,
    "winner_user_name": lambda c: c.winner_user_name,
    "isolation_level": lambda c: c.isolation_level,
    "row_level": lambda c: c.row_level,
    "file_count": lambda c: c.file_count,
    "row_count": lambda c: c.row_count,
    "partitions": lambda c: c.partitions,
    "wasted_ms": lambda c: c.wasted_ms,
    "wasted_bytes": lambda c: c.wasted_bytes,
    "job": lambda c: str(c.job_id) if c.job_id else None,
    "message": lambda c: c.message,
}
RULES = {
    "protocol_changed": "The winner changed the protocol",
    "metadata_changed": "The winner changed the metadata",
    "domain_written": "Both wrote one metadata domain",
    "application_committed": "Both used one application id",
    "data_added": "The winner added data that this write should have read",
    "read_file_removed": "The winner removed or rewrote files that this write read",
    "removed_file_removed": "Both delete the same files",
}
_ALIKE_SPAN = timedelta(days=30)
_ROWS_DRAWN = 100


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One of the seven checks, and how far it was gone through."""

    number: int
    name: str
    text: str
    outcome: str  # "passed", "hit", "not reached"


@dataclass(frozen=True, slots=True)
class Overlap:
    """The first file both sides met at, with positions to draw; `rows` may be a sample."""

    path: str
    partition: str
    role: str
    row_count: int | None
    rows: tuple[int, ...]
    marks: tuple[float, ...]
    file_rows: int | None


@login_required
def conflict_list(request: HttpRequest) -> HttpResponseBase:
    conflicts = to_list(visible_conflicts(request.user))
    listing = Listing(request, ConflictFilter(request.GET, conflicts))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], "conflicts")
    context = _list_context(request, listing)
    return render(request, "conflicts/list.html", context, status=listing.status)


@login_required
def conflict_page(request: HttpRequest, pk: int) -> HttpResponse:
    visible = visible_conflicts(request.user)
    conflict = get_object_or_404(visible.select_related("table", "job"), pk=pk)
    context = _context(conflict) | _around(visible, conflict)
    return render(request, "conflicts/conflict.html", context)


def _list_context(request: HttpRequest, listing: Listing) -> dict[str, Any]:
    table = one_table(request)
    sums = _sums(listing.rows)
    listing.known_total = sums["absorbed"] + sums["escaped"] + sums["reported"]
    return {
        "listing": listing,
        "table": table,
        "head": table_head(request, table, "conflicts") if table else None,
        "sums": sums,
        "kinds": Conflict.Kind,
        "exceptions": sorted({check.error.__name__ for check in CHECKS}),
        "twin": listing.twin("/api/v1/conflicts/"),
    }


def _sums(conflicts: QuerySet[Conflict]) -> dict[str, int]:
    lost = ~Q(kind=Conflict.Kind.ABSORBED)
    return conflicts.order_by().aggregate(
        absorbed=Count("pk", Q(kind=Conflict.Kind.ABSORBED)),
        escaped=Count("pk", Q(kind=Conflict.Kind.ESCAPED)),
        reported=Count("pk", Q(kind=Conflict.Kind.REPORTED)),
        ms=Sum("wasted_ms", filter=lost),
        size=Sum("wasted_bytes", filter=lost),
    )


def _context(conflict: Conflict) -> dict[str, Any]:
    facts = conflict.facts if isinstance(conflict.facts, dict) else {}
    winner, commit = facts.get("winner") or {}, _winning_commit(conflict)
    return {
        "conflict": conflict,
        "facts": facts,
        "current": facts.get("current") or {},
        "winner": winner,
        "winner_predicate": winner.get("predicate") or (commit.predicate if commit else ""),
        "headline": _headline(conflict),
        "rule_text": RULES.get(conflict.rule, conflict.rule),
        "checks": list(_checks(conflict)),
        "check_number": _check_number(conflict),
        "check_count": len(CHECKS),
        "overlap": _first_overlap(conflict, facts),
        "files": [file for file in facts.get("files") or [] if isinstance(file, dict)][:50],
        "paths": list(_absorbed_files(facts))[:50],
        "remedies": facts.get("remedies") or [],
        "winning_commit": commit,
        "twin": f"/api/v1/conflicts/{conflict.pk}/",
    }


def _headline(conflict: Conflict) -> str:
    if conflict.kind == Conflict.Kind.ABSORBED:
        return "Two writes met, and both landed"
    if conflict.row_count:
        rows = f"{conflict.row_count:,} rows" if conflict.row_count > 1 else "row"
        return f"Two writes of the same {rows}"
    return {
        "protocol_changed": "The protocol changed under a write",
        "metadata_changed": "The table changed under a write",
        "application_committed": "Two writers under one application id",
        "domain_written": "Two writers of one metadata domain",
        "data_added": "New data that a write should have read",
        "removed_file_removed": "Two writes that delete the same files",
    }.get(conflict.rule, "Two writes met, and one lost")


def _check_number(conflict: Conflict) -> int | None:
    names = [check.name for check in CHECKS]
    return names.index(conflict.rule) + 1 if conflict.rule in names else None


def _checks(conflict: Conflict) -> Iterator[CheckLine]:
    hit = _check_number(conflict)
    if hit is None or conflict.kind == Conflict.Kind.ABSORBED:
        return
    for number, check in enumerate(CHECKS, 1):
        outcome = "passed" if number < hit else "hit" if number == hit else "not reached"
        yield CheckLine(number, check.name, RULES.get(check.name, check.name), outcome)


def _first_overlap(conflict: Conflict, facts: dict[str, Any]) -> Overlap | None:
    files = [file for file in facts.get("files") or [] if isinstance(file, dict)]
    chosen = next((file for file in files if file.get("rows")), files[0] if files else None)
    if chosen is None:
        return None
    path = str(chosen.get("path", ""))
    rows = tuple(row for row in chosen.get("rows") or () if isinstance(row, int))[:_ROWS_DRAWN]
    file_rows = _rows_in_file(conflict, path)
    last = max(file_rows or 0, max(rows, default=0) + 1)
    partition = chosen.get("partition_values") or {}
    return Overlap(
        path=path,
        partition=", ".join(f"{name}={value}" for name, value in partition.items()),
        role=str(chosen.get("role", "")),
        row_count=chosen.get("row_count"),
        rows=rows,
        marks=tuple(100 * (row + 0.5) / last for row in rows),
        file_rows=file_rows,
    )


def _absorbed_files(facts: dict[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """The files of an absorbed conflict, and the first rows that were told apart in each."""
    known = facts.get("rows")
    for path in facts.get("files") or []:
        if isinstance(path, str):
            rows = known.get(path) if isinstance(known, dict) else None
            yield path, [row for row in rows or () if isinstance(row, int)][:_ROWS_DRAWN]


def _rows_in_file(conflict: Conflict, path: str) -> int | None:
    """How many rows the file holds, where some mirrored version says so."""
    files = CommitFile.objects.filter(commit__table=conflict.table_id, path=path)
    return files.exclude(row_count=None).values_list("row_count", flat=True).first()


def _winning_commit(conflict: Conflict) -> Commit | None:
    if conflict.table is None or conflict.winning_version is None:
        return None
    commits = conflict.table.commits.defer("raw")
    return commits.filter(version=conflict.winning_version).first()


def _around(visible: QuerySet[Conflict], conflict: Conflict) -> dict[str, Any]:
    same = visible.filter(table=conflict.table_id, kind=conflict.kind).order_by("occurred_at", "pk")
    now, pk = conflict.occurred_at, conflict.pk
    earlier = Q(occurred_at__lt=now) | Q(occurred_at=now, pk__lt=pk)
    later = Q(occurred_at__gt=now) | Q(occurred_at=now, pk__gt=pk)
    alike = same.filter(
        rule=conflict.rule,
        current_operation=conflict.current_operation,
        winner_operation=conflict.winner_operation,
        occurred_at__gte=now - _ALIKE_SPAN,
    )
    return {
        "previous": same.filter(earlier).values_list("pk", flat=True).last(),
        "next": same.filter(later).values_list("pk", flat=True).first(),
        "alike": alike.order_by("-occurred_at")[:6],
        "alike_count": alike.count(),
    }
