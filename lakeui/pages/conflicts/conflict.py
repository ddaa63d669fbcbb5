"""One conflict with both sides: the event, the reason, the fixes, the evidence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from engine.conflict_facts import Decision, Rule, Subclass, Verdict, WinnerVerdicts
from engine.conflicts.checker import CHECK_OF, CHECKS, FILE_RULES
from engine.conflicts.row_pairs import LEFT_OUT
from engine.vocabulary import operation_named
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.units import format_count
from lakeui.conflicts.conflict_detail.both_sides import both_sides, is_of_former_table
from lakeui.conflicts.conflict_detail.later_commit import find_later_commit
from lakeui.conflicts.conflict_detail.similar import neighbours, similar_conflicts
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.redaction import redact_conflict
from lakeui.pages.charts.overlap import draw_overlap
from lakeui.pages.conflicts.conflict_rerun import rerun_context
from lakeui.pages.conflicts.conflict_rows import rows_view
from lakeui.pages.conflicts.fixes import fixes_context
from lakeui.pages.conflicts.set_words import set_words
from lakeui.pages.jobs.jobs import STOP_POLLING

_SIMILAR_SHOWN, _FILES_SHOWN = 8, 50


@never_cache
@login_required
def conflict_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Render the page; for htmx, only the rows read by a worker so far."""
    visible = visible_conflicts(request.user)
    conflict = get_object_or_404(
        visible.select_related("table", "job", "transaction__pipeline"), pk=pk
    )
    conflict = redact_conflict(conflict, Reader(request.user))
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        shared = rows_view(conflict, both_sides(conflict, Reader(request.user)))
        fragment = {"conflict": conflict, "shared": shared}
        status = 200 if shared.waits else STOP_POLLING
        return render(request, "conflicts/_rows.html", fragment, status=status)
    context = _context(request, visible, conflict)
    return render(request, "conflicts/conflict.html", context)


def _context(
    request: HttpRequest, visible: QuerySet[Conflict], conflict: Conflict
) -> dict[str, Any]:
    facts = conflict.facts if isinstance(conflict.facts, dict) else {}
    sides, like = both_sides(conflict, Reader(request.user)), similar_conflicts(visible, conflict)
    decision = sides.decision
    files = [file for file in facts.get("files") or [] if isinstance(file, dict)]
    paths = [path for path in facts.get("files") or [] if isinstance(path, str)]
    fired_at, is_resolved = (
        (str(file.get("path")) for file in files),
        conflict.kind == Conflict.Kind.RESOLVED,
    )
    chart = draw_overlap(decision, fired_at, is_resolved=is_resolved) if decision else None
    landed = find_later_commit(conflict)
    return (
        fixes_context(request, conflict, sides, like, landed)
        | rerun_context(request, conflict, landed)
        | {
            "conflict": conflict,
            "is_former": is_of_former_table(conflict),
            "facts": facts,
            "sides": sides,
            "decision": decision,
            "headline": headline(conflict),
            "rule_text": rule_text(conflict),
            "is_of_files": conflict.rule in FILE_RULES,
            "decided_by": _DECIDED_BY.get(conflict.rule, ""),
            "check_number": check_number(conflict),
            "check_count": len(CHECKS),
            "checks": build_check_rows(conflict, decision),
            "winners": winners_of(conflict, decision),
            "chart": chart,
            "shared": rows_view(conflict, sides),
            "files": files[:_FILES_SHOWN],
            "paths": paths[:_FILES_SHOWN],
            "words": set_words(conflict, decision),
            "near": neighbours(visible, conflict),
            "similar": like.conflicts[:_SIMILAR_SHOWN],
            "similar_count": like.count,
            "similar_is_capped": like.is_capped,
            "similar_address": _similar_address(conflict),
            "twin": f"/api/v1/conflicts/{conflict.pk}/",
        }
    )


def _similar_address(conflict: Conflict) -> str:
    query = {
        "table": conflict.table_id or "",
        "kind": conflict.kind,
        "pair": f"{conflict.current_operation},",
        "user": conflict.current_user_name,
    }
    kept = {name: value for name, value in query.items() if value not in ("", ",")}
    return f"{reverse('conflict-list')}?{urlencode(kept)}"


_MARKS = {
    Verdict.NOTHING: ("none", "none"),
    Verdict.EXEMPT: ("none", "exempt"),
    Verdict.PASSES: ("ok", "pass"),
    Verdict.NOT_REACHED: ("none", "not reached"),
}
_DECIDED_BY: Mapping[str, str] = {
    Rule.PROTOCOL_CHANGED: "The protocol",
    Rule.METADATA_CHANGED: "The change of metadata",
    Rule.DOMAIN_WRITTEN: "The metadata domain",
    Rule.APPLICATION_COMMITTED: "The application id",
}
"""The deciding fact if files do not decide."""
_CREATED = ("Two writes created one table", "Both wrote version 0")
_REPLACED = ("Two writes replaced one table", "Both put another table in the place of this one")
_FOLLOWED = ("row map", "row ids")
_ORDER = [check.rule for check in CHECKS]


@dataclass(frozen=True, slots=True)
class CheckCell:
    """A check's verdict on one winning commit."""

    mark: str
    text: str
    is_hit: bool = False


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check, against each winning commit in order."""

    number: int
    name: str
    text: str
    cells: tuple[CheckCell, ...]


def headline(conflict: Conflict) -> str:
    """Describe the conflict in a few words."""
    if conflict.kind == Conflict.Kind.RESOLVED:
        return "Two writes overlapped, and both committed"
    if conflict.row_count:
        return f"Two writes of the same {'row' if conflict.row_count == 1 else conflict.rows_text}"
    if both := _describe_double_create(conflict):
        return both[0]
    rule = conflict.decided_by
    return CHECK_OF[rule].headline if rule else "Two writes overlapped, and one was aborted"


def rule_text(conflict: Conflict) -> str:
    """Describe the finding of the check that fired."""
    both = _describe_double_create(conflict)
    return both[1] if both else str(conflict.get_rule_display())


def _describe_double_create(conflict: Conflict) -> tuple[str, str] | None:
    """Describe two writes that both created the table, or both replaced it."""
    if conflict.subclass == Subclass.WRITE_TO_EMPTY_DIRECTORY:
        return _CREATED
    sides = map(operation_named, (conflict.current_operation, conflict.winner_operation))
    is_first = conflict.rule == Rule.PROTOCOL_CHANGED
    return _REPLACED if is_first and all(side.replaces_table for side in sides) else None


def check_number(conflict: Conflict) -> int | None:
    """Return the number of the check that fired, from 1; None if it is not recorded."""
    rule = conflict.decided_by
    return _ORDER.index(rule) + 1 if rule else None


def build_check_rows(conflict: Conflict, decision: Decision | None) -> tuple[CheckRow, ...]:
    """Return a row per check with a cell per winning commit; old records have one commit."""
    winners = decision.winners if decision else tuple(_guess_verdicts(conflict))
    if not winners:
        return ()
    return tuple(
        CheckRow(
            number,
            check.short,
            check.title,
            tuple(_cell(conflict, winner, check.rule) for winner in winners),
        )
        for number, check in enumerate(CHECKS, 1)
    )


def winners_of(conflict: Conflict, decision: Decision | None) -> Sequence[WinnerVerdicts]:
    """Return the winning commits of the cells."""
    return decision.winners if decision else tuple(_guess_verdicts(conflict))


def _guess_verdicts(conflict: Conflict) -> Iterator[WinnerVerdicts]:
    """Derive earlier checks' verdicts from the order of the checks alone."""
    hit = check_number(conflict)
    if hit is None or conflict.kind == Conflict.Kind.RESOLVED or conflict.winning_version is None:
        return
    verdicts = {
        rule: Verdict.PASSES
        if number < hit
        else Verdict.CONFLICT
        if number == hit
        else Verdict.NOT_REACHED
        for number, rule in enumerate(_ORDER, 1)
    }
    yield WinnerVerdicts(conflict.winning_version, conflict.winner_operation, verdicts)


def _cell(conflict: Conflict, winner: WinnerVerdicts, rule: Rule) -> CheckCell:
    verdict = winner.verdicts.get(rule)
    if verdict is Verdict.CONFLICT:
        return CheckCell("x", _hit(conflict), is_hit=True)
    if verdict is Verdict.RESOLVED:
        return _row_level_cell(winner, rule)
    mark, text = (
        _MARKS.get(verdict, ("none", "not recorded")) if verdict else ("none", "not recorded")
    )
    return CheckCell(mark, text)


def _row_level_cell(winner: WinnerVerdicts, rule: Rule) -> CheckCell:
    """Return the cell of a decision by rows: traced, none new, or other rows."""
    if rule not in FILE_RULES:
        return CheckCell("ok", "features enabled")
    if LEFT_OUT in winner.how and rule is not Rule.DATA_ADDED:
        return CheckCell("joint", "rows left out")
    if any(means in winner.how for means in _FOLLOWED):
        return CheckCell("joint", "row map")
    return (
        CheckCell("ok", "no new rows")
        if rule is Rule.DATA_ADDED
        else CheckCell("joint", "other rows")
    )


def _hit(conflict: Conflict) -> str:
    if conflict.row_count:
        return conflict.rows_text
    if conflict.file_count:
        return (
            "1 file" if conflict.file_count == 1 else f"{format_count(conflict.file_count)} files"
        )
    return "here"
