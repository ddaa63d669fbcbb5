"""Fixes on a conflict's page: each with its button, and the result of its trial."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from engine.conflicts.isolation import IsolationLevel
from lakeui.catalog.access import may
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.conflict_detail.advice import PASSES, ConflictAdvice, advice
from lakeui.conflicts.conflict_detail.both_sides import BothSides
from lakeui.conflicts.conflict_detail.later_commit import LaterCommit
from lakeui.conflicts.conflict_detail.similar import DAYS, SimilarConflicts
from lakeui.conflicts.conflict_detail.trials import TrialAnswer, trials_view
from lakeui.conflicts.models import Conflict

ABORTED = "aborted"
_RELAXED = IsolationLevel.WRITE_SERIALIZABLE
_PAGES = {
    "eligibility": ("table-eligibility", "", "Open eligibility"),
    "isolation": ("table-isolation", f"?level={_RELAXED}", f"Preview {_RELAXED}"),
}
"""The pages of a table where a fix is made: name, query and the words of the button."""


@dataclass(frozen=True, slots=True)
class FixAction:
    """A fix, its button's address and label, and the result of its trial.

    `rest_address` is the form of a statement for the rows that the fix leaves out.
    """

    advice: ConflictAdvice
    address: str
    label: str
    tried: TrialAnswer | None = None
    rest_address: str = ""

    @property
    def verdict(self) -> str:
        """The verdict of a trial, if there was one; else that of the record."""
        landed = self.tried.would_have_landed if self.tried else None
        if landed is None:
            return self.advice.verdict
        return PASSES if landed else ABORTED

    @property
    def condition(self) -> str:
        """The condition to add, if that is the advice."""
        return self.advice.condition

    @property
    def helped_text(self) -> str:
        """How often it would have helped, as a sentence."""
        return self.advice.history.format(helped=self.advice.helped, of=self.advice.of)


def fixes_context(
    request: HttpRequest,
    conflict: Conflict,
    sides: BothSides,
    like: SimilarConflicts,
    landed: LaterCommit | None,
) -> dict[str, Any]:
    """Return the context of the list of fixes."""
    may_write = conflict.table is not None and may(request.user, "write", conflict.table)
    trials = trials_view(conflict, Reader(request.user))
    return {
        "acts": [
            _act(option, conflict, landed, trials.answer_of(option.kind), may_write=may_write)
            for option in advice(conflict, sides, like)
        ],
        "trials": trials,
        "landed": landed,
        "similar_days": DAYS,
    }


def _act(
    piece: ConflictAdvice,
    conflict: Conflict,
    landed: LaterCommit | None,
    tried: TrialAnswer | None,
    *,
    may_write: bool,
) -> FixAction:
    table, job = conflict.table_id, conflict.job
    address, label = "", ""
    if piece.act == "job" and job is not None:
        address, label = "#rerun", "Run again below"
        if landed is not None:
            address = reverse("job", args=[landed.job_id or job.pk])
            label = f"Done as v{landed.version}"
    elif piece.act == "schedule" and job is not None and job.schedule_id:
        where = f"?table={job.table_id}#schedule-{job.schedule_id}"
        address, label = f"{reverse('schedule-list')}{where}", "Open schedules"
    elif table is None or not may_write:
        pass
    elif piece.act == "sql" and piece.sql:
        address, label = _form_address(conflict, piece.sql), "Open as a new job"
    elif piece.act == "schedules":
        address, label = f"{reverse('schedule-list')}?table={table}", "Open schedules"
    elif piece.is_advised and piece.act in _PAGES:
        page, query, label = _PAGES[piece.act]
        address = reverse(page, args=[table]) + query
    rest = _form_address(conflict, piece.rest_sql) if may_write and piece.rest_sql else ""
    return FixAction(piece, address, label, tried, rest)


def _form_address(conflict: Conflict, sql: str) -> str:
    return f"{reverse('job-new')}?{urlencode({'table': conflict.table_id, 'sql': sql})}"
