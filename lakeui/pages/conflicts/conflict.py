"""One conflict with both sides: the event, the reason, the fixes, the evidence.

Sentences say what each side read, removed and added, and where the two overlap.
"""

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

from engine.conflict_facts import (
    Decision,
    Rule,
    SharedFile,
    SideChanges,
    SideReads,
    Subclass,
    Verdict,
    WinnerVerdicts,
)
from engine.conflicts.decide.checker import CHECK_OF, CHECKS, FILE_RULES
from engine.conflicts.decide.row_pairs import LEFT_OUT
from engine.vocabulary import operation_named
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.units import format_count
from lakeui.conflicts.conflict_detail.rerun import find_later_commit
from lakeui.conflicts.conflict_detail.sides import (
    both_sides,
    is_of_former_table,
    neighbors,
    similar_conflicts,
)
from lakeui.conflicts.filters import redact_conflict, visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.pages.charts.overlap import draw_overlap
from lakeui.pages.conflicts.conflict_rows import rows_view
from lakeui.pages.conflicts.fixes import fixes_context, rerun_context
from lakeui.pages.jobs.jobs import STOP_POLLING

_SIMILAR_SHOWN, _FILES_SHOWN = 8, 50

_FILES_TOLD = 3

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
_CREATED = ("Two writes created the same table", "Both wrote version 0")
_REPLACED = ("Two writes replaced the same table", "Both replaced this table")
_FOLLOWED = ("row map", "row ids")
_ORDER = [check.rule for check in CHECKS]


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
            "near": neighbors(visible, conflict),
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
        return CheckCell("joint", "shared rows left out")
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


def set_words(conflict: Conflict, decision: Decision | None) -> tuple[str, ...]:
    """Return sentences with the recorded numbers; none without a record."""
    if decision is None:
        return ()
    here, there = conflict.current_operation, conflict.winner_operation
    changes = decision.current_changes
    is_resolved = conflict.kind == Conflict.Kind.RESOLVED
    return (
        _read(here, conflict, decision),
        f"It {_describe_changes(changes)}."
        if is_resolved
        else f"It was going to {_changes(changes)}.",
        f"v{conflict.winning_version} ({there}) {_describe_changes(decision.winner_changes)}.",
        *_iter_overlap_sentences(conflict, decision),
    )


def _read(operation: str, conflict: Conflict, decision: Decision) -> str:
    among = f" of the {format_count(decision.table_files)} in" if decision.table_files else " of"
    version = "the table" if conflict.read_version is None else f"v{conflict.read_version}"
    return f"This {operation} read {_reads(decision.reads, f'{among} {version}')}."


def _reads(reads: SideReads, of: str) -> str:
    if reads.whole_table:
        return "the whole table, so every change to it counts"
    if not (reads.files or reads.conditions):
        return "nothing of the table"
    by = f" by {_number(reads.conditions, 'condition')}" if reads.conditions else ""
    return f"{_number(reads.files, 'file')}{of}{by}"


def _changes(changes: SideChanges) -> str:
    """Describe an aborted write's staged changes, as an infinitive."""
    return _describe_side(changes, "change", "remove", "add")


def _describe_changes(changes: SideChanges) -> str:
    return _describe_side(changes, "changed", "removed", "added")


def _describe_side(changes: SideChanges, change: str, remove: str, add: str) -> str:
    whole = changes.files_changed - changes.files_masked
    parts = []
    if changes.files_masked:
        parts.append(f"{change} {_number(changes.files_masked, 'file')} by deletion vectors")
    if whole:
        parts.append(f"{remove} {_number(whole, 'file')}")
    rows = changes.rows_changed
    if parts and rows is not None:
        parts[-1] += f" ({_number(rows, 'row')} in all)"
    if changes.files_added:
        added = "" if changes.rows_added is None else f" ({_number(changes.rows_added, 'row')})"
        parts.append(f"{add} {_number(changes.files_added, 'file')}{added}")
    return " and ".join(parts) or f"{change} no file"


def _iter_overlap_sentences(conflict: Conflict, decision: Decision) -> Iterator[str]:
    shared = decision.shared_files
    count = max(conflict.file_count, len(shared))  # those whose rows were compared, too
    if not count and conflict.kind == Conflict.Kind.RESOLVED:
        yield (
            f"No file is in both, because v{conflict.winning_version} changed only the "
            "table's definition."
        )
        return
    if not count:
        yield (
            "No file is in both, because both changed the table's definition or a stream's "
            "progress."
        )
        return
    if conflict.decided_by is Rule.DATA_ADDED and not shared:
        yield f"It should have read {_number(count, 'file')} that v{conflict.winning_version} added."
    else:
        yield f"Both touched {_number(count, 'file')}."
    for file in shared[:_FILES_TOLD]:
        yield _describe_file(file, conflict)
    if len(shared) > _FILES_TOLD:
        others = _number(len(shared) - _FILES_TOLD, "more file")
        yield f"The table of files lists {others}."
    if not shared and conflict.kind == Conflict.Kind.ABORTED:
        yield "Rows were not compared, because the conflict was decided at file level."
    elif conflict.row_count and any(file.common_count for file in shared):
        yield f"In total, both touched {conflict.rows_text}."


def _describe_file(file: SharedFile, conflict: Conflict) -> str:
    """Describe each side's change of a file's rows, and how many are the same."""
    name = file.path.rpartition("/")[2]
    size = "" if file.file_row_count is None else f" of {_number(file.file_row_count, 'row')}"
    did = "reads" if file.did == "read" else "changes"
    took = "added" if conflict.decided_by is Rule.DATA_ADDED and file.did == "read" else "took"
    gone = (
        f"; {_number(file.gone_before_count, 'row')} had been deleted before either"
        if file.gone_before_count
        else ""
    )
    both = "none is" if not file.common_count else (
        f"{format_count(file.common_count)} {'is' if file.common_count == 1 else 'are'}"
    )  # fmt: skip
    return (
        f"In {name}{size} this {conflict.current_operation} {did} {format_count(file.current_count)}"
        f" and v{conflict.winning_version} {took} {format_count(file.winner_count)}{gone}:"
        f" {both} in both."
    )


def _number(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun if count == 1 else f'{noun}s'}"
