"""One conflict with both sides: what happened, why, what to do, the evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from engine.conflict_facts import Decision, Rule, Verdict, WinnerVerdicts
from engine.conflicts.checker import CHECK_OF, CHECKS
from lakeui.catalog.access import may
from lakeui.catalog.models import CommitFile
from lakeui.catalog.named_tables import Reader
from lakeui.conflicts.conflict_detail.advice import Advice, advice
from lakeui.conflicts.conflict_detail.both_sides import both_sides
from lakeui.conflicts.conflict_detail.later_commit import Landed, landed_later
from lakeui.conflicts.conflict_detail.similar import DAYS, neighbours, similar_conflicts
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.pages.charts.overlap import draw_known_rows, draw_overlap
from lakeui.pages.conflicts.conflict_rows import rows_view
from lakeui.pages.jobs.jobs import STOP_POLLING
from lakeui.pages.units import format_count

_SIMILAR_SHOWN, _FILES_SHOWN = 8, 50


@dataclass(frozen=True, slots=True)
class Act:
    """A remedy, and the address and words of the button that leads to doing it."""

    advice: Advice
    address: str
    label: str

    @property
    def condition(self) -> str:
        """What is to be added to the condition, where that is the advice."""
        return self.advice.condition

    @property
    def helped_text(self) -> str:
        """How often it would have helped, as a sentence."""
        return self.advice.history.format(helped=self.advice.helped, of=self.advice.of)


@never_cache
@login_required
def conflict_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The page; asked by htmx, the rows that a worker may have read by now."""
    visible = visible_conflicts(request.user)
    conflict = get_object_or_404(
        visible.select_related("table", "job", "transaction__pipeline"), pk=pk
    )
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
    chart = draw_overlap(decision, (str(file.get("path")) for file in files)) if decision else None
    may_write = conflict.table is not None and may(request.user, "write", conflict.table)
    landed = landed_later(conflict)
    return {
        "conflict": conflict,
        "facts": facts,
        "sides": sides,
        "decision": decision,
        "headline": headline(conflict),
        "rule_text": conflict.get_rule_display(),
        "check_number": check_number(conflict),
        "check_count": len(CHECKS),
        "checks": decided(conflict, decision),
        "winners": winners_of(conflict, decision),
        "chart": chart,
        "shared": rows_view(conflict, sides),
        "files": files[:_FILES_SHOWN],
        "paths": paths[:_FILES_SHOWN],
        "known": None if chart or not files else _known_rows(conflict, files),
        "acts": [
            _act(option, conflict, landed, may_write=may_write)
            for option in advice(conflict, sides, like)
        ],
        "landed": landed,
        "near": neighbours(visible, conflict),
        "similar": like.conflicts[:_SIMILAR_SHOWN],
        "similar_count": like.count,
        "similar_is_capped": like.is_capped,
        "similar_days": DAYS,
        "similar_address": _similar_address(conflict),
        "twin": f"/api/v1/conflicts/{conflict.pk}/",
    }


def _act(piece: Advice, conflict: Conflict, landed: Landed | None, *, may_write: bool) -> Act:
    table, job = conflict.table_id, conflict.job
    address, label = "", ""
    if piece.act == "job" and job is not None:
        address = reverse("job", args=[(landed and landed.job_id) or job.pk])
        label = f"Done as v{landed.version}" if landed else "Run again…"
    elif piece.act == "schedule" and job is not None and job.schedule_id:
        where = f"?table={job.table_id}#schedule-{job.schedule_id}"
        address, label = f"{reverse('schedule-list')}{where}", "Open schedules"
    elif table is None or not may_write:
        pass
    elif piece.act == "sql" and piece.sql:
        query = urlencode({"table": table, "sql": piece.sql})
        address, label = f"{reverse('job-new')}?{query}", "Open as a new job"
    elif piece.act == "schedules":
        address, label = f"{reverse('schedule-list')}?table={table}", "Open schedules"
    elif piece.act == "eligibility":
        address, label = reverse("table-eligibility", args=[table]), "Open eligibility"
    return Act(piece, address, label)


def _known_rows(conflict: Conflict, files: list[dict[str, Any]]) -> dict[str, Any]:
    """The first file with rows of both, drawn in its length where some mirrored version tells it."""
    file = next((candidate for candidate in files if candidate.get("rows")), files[0])
    path = str(file.get("path", ""))
    mirrored = CommitFile.objects.filter(commit__table=conflict.table_id, path=path)
    count = mirrored.exclude(row_count=None).values_list("row_count", flat=True).first()
    return {"file": file, "row_count": count, "strip": draw_known_rows(file, count)}


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
_FOLLOWED = ("row map", "row ids")
_ORDER = [check.rule for check in CHECKS]


@dataclass(frozen=True, slots=True)
class CheckCell:
    """What one check said of one winning commit."""

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
    """What happened, in a few words."""
    if conflict.kind == Conflict.Kind.RESOLVED:
        return "Two writes overlapped, and both committed"
    if conflict.row_count:
        if conflict.row_count_is_minimum:
            return f"Two writes of the same rows, at least {conflict.row_count:,}"
        return f"Two writes of the same {'row' if conflict.row_count == 1 else conflict.rows_text}"
    rule = conflict.decided_by
    return CHECK_OF[rule].headline if rule else "Two writes overlapped, and one was aborted"


def check_number(conflict: Conflict) -> int | None:
    """Which of the checks fired, counted from 1; None where that is not recorded."""
    rule = conflict.decided_by
    return _ORDER.index(rule) + 1 if rule else None


def decided(conflict: Conflict, decision: Decision | None) -> tuple[CheckRow, ...]:
    """A row each check, a cell each winning commit; for losses recorded without, of the one that won."""
    winners = decision.winners if decision else tuple(_guessed(conflict))
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
    """The winning commits that the cells are of."""
    return decision.winners if decision else tuple(_guessed(conflict))


def _guessed(conflict: Conflict) -> Iterator[WinnerVerdicts]:
    """The order of the checks alone tells what came before the one that fired."""
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
        return _resolved(winner, rule)
    mark, text = (
        _MARKS.get(verdict, ("none", "not recorded")) if verdict else ("none", "not recorded")
    )
    return CheckCell(mark, text)


def _resolved(winner: WinnerVerdicts, rule: Rule) -> CheckCell:
    """Rows decided: because they were traced, because none of them was new, or were others."""
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
