"""One conflict with both sides: what happened, why, what to do, the evidence."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from engine.conflicts.checker import CHECKS
from lakeui.catalog.access import may
from lakeui.catalog.models import CommitFile
from lakeui.catalog.named_tables import Reader
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.loss.advice import Advice, advice
from lakeui.conflicts.loss.alike import DAYS, alike, neighbours
from lakeui.conflicts.loss.both_sides import both_sides
from lakeui.conflicts.loss.landed import Landed, landed_later
from lakeui.conflicts.models import Conflict
from lakeui.pages.charts.overlap import draw_known_rows, draw_overlap
from lakeui.pages.conflict_rows import rows_view
from lakeui.pages.conflict_words import RULES, check_number, decided, headline, winners_of
from lakeui.pages.jobs import STOP_POLLING

_ALIKE_SHOWN, _FILES_SHOWN = 8, 50


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
    conflict = get_object_or_404(visible.select_related("table", "job"), pk=pk)
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        met = rows_view(conflict, both_sides(conflict, Reader(request.user)))
        fragment = {"conflict": conflict, "met": met}
        status = 200 if met.waits else STOP_POLLING
        return render(request, "conflicts/_rows.html", fragment, status=status)
    context = _context(request, visible, conflict)
    return render(request, "conflicts/conflict.html", context)


def _context(
    request: HttpRequest, visible: QuerySet[Conflict], conflict: Conflict
) -> dict[str, Any]:
    facts = conflict.facts if isinstance(conflict.facts, dict) else {}
    sides, like = both_sides(conflict, Reader(request.user)), alike(visible, conflict)
    decision = sides.decision
    files = [file for file in facts.get("files") or [] if isinstance(file, dict)]
    paths = [path for path in facts.get("files") or [] if isinstance(path, str)]
    chart = draw_overlap(decision, (str(each.get("path")) for each in files)) if decision else None
    may_write = conflict.table is not None and may(request.user, "write", conflict.table)
    landed = landed_later(conflict)
    return {
        "conflict": conflict,
        "facts": facts,
        "sides": sides,
        "decision": decision,
        "headline": headline(conflict),
        "rule_text": RULES.get(conflict.rule, conflict.rule),
        "check_number": check_number(conflict),
        "check_count": len(CHECKS),
        "checks": decided(conflict, decision),
        "winners": winners_of(conflict, decision),
        "chart": chart,
        "met": rows_view(conflict, sides),
        "files": files[:_FILES_SHOWN],
        "paths": paths[:_FILES_SHOWN],
        "known": None if chart or not files else _known_rows(conflict, files),
        "acts": [
            _act(each, conflict, landed, may_write=may_write)
            for each in advice(conflict, sides, like)
        ],
        "landed": landed,
        "near": neighbours(visible, conflict),
        "alike": like.conflicts[:_ALIKE_SHOWN],
        "alike_count": like.count,
        "alike_is_capped": like.is_capped,
        "alike_days": DAYS,
        "alike_address": _alike_address(conflict),
        "twin": f"/api/v1/conflicts/{conflict.pk}/",
    }


def _act(found: Advice, conflict: Conflict, landed: Landed | None, *, may_write: bool) -> Act:
    table, job = conflict.table_id, conflict.job
    address, label = "", ""
    if found.act == "job" and job is not None:
        address = reverse("job", args=[landed.job_id if landed else job.pk])
        label = f"Done as v{landed.version}" if landed else "Run again…"
    elif found.act == "schedule" and job is not None and job.schedule_id:
        where = f"?table={job.table_id}#schedule-{job.schedule_id}"
        address, label = f"{reverse('schedule-list')}{where}", "Open schedules"
    elif table is None or not may_write:
        pass
    elif found.act == "sql" and found.sql:
        query = urlencode({"table": table, "sql": found.sql})
        address, label = f"{reverse('job-new')}?{query}", "Open as a new job"
    elif found.act == "schedules":
        address, label = f"{reverse('schedule-list')}?table={table}", "Open schedules"
    elif found.act == "eligibility":
        address, label = reverse("table-eligibility", args=[table]), "Open eligibility"
    return Act(found, address, label)


def _known_rows(conflict: Conflict, files: list[dict[str, Any]]) -> dict[str, Any]:
    """The first file with rows of both, drawn in its length where some mirrored version tells it."""
    file = next((each for each in files if each.get("rows")), files[0])
    path = str(file.get("path", ""))
    mirrored = CommitFile.objects.filter(commit__table=conflict.table_id, path=path)
    count = mirrored.exclude(row_count=None).values_list("row_count", flat=True).first()
    return {"file": file, "row_count": count, "strip": draw_known_rows(file, count)}


def _alike_address(conflict: Conflict) -> str:
    query = {
        "table": conflict.table_id or "",
        "kind": conflict.kind,
        "pair": f"{conflict.current_operation},",
        "user": conflict.current_user_name,
    }
    kept = {name: value for name, value in query.items() if value not in ("", ",")}
    return f"{reverse('conflict-list')}?{urlencode(kept)}"
