"""Trials of fixes for an aborted write: a page requests them, a worker tries each on a copy.

`engine.conflicts.explain.remedy_table` defines the change of each fix, and the part that can be
tried; the answers are the engine's own. They are stored: the past does not change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from engine.commands.model import Command
from engine.commands.script import commits_by_step
from engine.commands.sql import parse_statement
from engine.conflict_facts import RemedyKind, TrialChange, TrialOutcome, Verdict
from engine.conflicts.explain.remedy_table import (
    AS_IT_WAS,
    CHANGES,
    ELSEWHERE,
    SERIALIZABLE,
    WHY_NOT,
)
from engine.conflicts.isolation import IsolationLevel
from engine.errors import EngineError, RequestError
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.former_tables import filter_current_table
from lakeui.catalog.previews import PREVIEW_CONDITION, check_condition, is_waiting
from lakeui.catalog.reads import check_room, end_lost_reads, note_read, send_read
from lakeui.conflicts.conflict_detail.advice import find_narrowing
from lakeui.conflicts.conflict_detail.sides import decision_of
from lakeui.conflicts.models import Conflict, ConflictTrials, PipelineTransaction
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.models import Job
from lakeui.task_names import TRY_FIXES

CONTROL, NARROW, CONDITION, LEVEL = "as_it_was", "narrow", "condition", "serializable"
_LATER = RemedyKind.RETRY
_PASSES = (Verdict.PASSES, Verdict.RESOLVED)
_ROWS = ("numUpdatedRows", "numDeletedRows", "numTargetRowsUpdated", "numOutputRows")


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """The result of one fix: `verdict` is "" if it was not tried yet."""

    verdict: str = ""
    why: str = ""
    winning_version: int | None = None
    rows: int | None = None
    needs_spark: bool = False

    @property
    def would_have_landed(self) -> bool | None:
        """Whether it would have landed; None if it was not tried, or could not be."""
        if self.verdict in _PASSES:
            return True
        return False if self.verdict == Verdict.CONFLICT else None


@dataclass(frozen=True)
class TrialsView:
    """The trials for a page: `obstacle` is why there can be none, "" if there can."""

    obstacle: str
    trials: ConflictTrials | None

    @property
    def waits(self) -> bool:
        return self.trials is not None and is_waiting(self.trials)

    @property
    def is_answered(self) -> bool:
        return self.trials is not None and bool(self.trials.answers)

    @property
    def control(self) -> TrialAnswer:
        """The unchanged write: unless it conflicts again, no other answer counts."""
        return self._answer(CONTROL)

    @property
    def is_reproduced(self) -> bool:
        return self.control.verdict == Verdict.CONFLICT

    @property
    def may_ask(self) -> bool:
        """Whether another trial can help: not while one runs, nor for a write that needs Spark."""
        return not (self.obstacle or self.waits or self.control.needs_spark)

    @property
    def of_condition(self) -> TrialAnswer | None:
        """The answer for the condition that somebody asked about."""
        asked = self.trials.condition if self.trials else ""
        return self._answer(CONDITION) if asked and self.is_answered else None

    def answer_of(self, kind: str) -> TrialAnswer | None:
        """Return the answer for a kind of fix; None without one."""
        if not self.is_answered or kind in ("vectors_on", "partition"):
            return None
        change = CHANGES.get(RemedyKind(kind)) if kind in set(RemedyKind) else None
        same = _LATER if change is not None and change.after_winners else kind
        if self.trials is not None and same in self.trials.answers:
            return self._answer(same)
        if kind not in set(RemedyKind):
            return None
        why = WHY_NOT.get(RemedyKind(kind), ELSEWHERE)
        return TrialAnswer(Verdict.UNDECIDABLE, why)

    def _answer(self, kind: str) -> TrialAnswer:
        given = self.trials.answers.get(kind) if self.trials else None
        return _answer_from(given) if isinstance(given, dict) else TrialAnswer()


def trials_view(conflict: Conflict, reader: Reader) -> TrialsView:
    """Return the known trials, for a reader of the statement."""
    obstacle = obstacle_to_trials(conflict, reader)
    trials = ConflictTrials.objects.filter(conflict=conflict).first() if not obstacle else None
    return TrialsView(obstacle, trials)


def obstacle_to_trials(conflict: Conflict, reader: Reader) -> str:
    """Return why nothing can be tried; "" if it can."""
    if conflict.kind == Conflict.Kind.RESOLVED:
        return "Both writes committed, so there is nothing to try."
    if conflict.table is None:
        return "Its table is not registered here, so there is no version on which to try it."
    if not _knows_versions(conflict):
        return "Its read version or its winning commit is not recorded."
    if not _may_read(conflict, reader):
        return "Its statement names tables that you may not see."
    is_known = command_of_conflict(conflict) is not None
    return (
        ""
        if is_known
        else "It ran in an external program, and its complete statement is not recorded."
    )


def _knows_versions(conflict: Conflict) -> bool:
    read, winning = conflict.read_version, conflict.winning_version
    return read is not None and winning is not None and 0 <= read < winning


def command_of_conflict(conflict: Conflict) -> Command | None:
    """Return the aborted command; None if it is not fully known, or was a step of a script."""
    if conflict.job is not None:
        return _job_command(conflict.job)
    reported = conflict.transaction
    return _parse_single_command(reported.statement) if reported else None


def ask_for_trials(conflict: Conflict, reader: Reader, condition: str = "") -> ConflictTrials:
    """Have a worker try every fix, and a condition if one is given, unless it was asked just now.

    Raises:
        RequestError: nothing can be tried, or the condition is too long.
        ExpressionError: the condition does not parse.
        TooManyReadsError: the person waits for as many reads as one person may.
        OperationalError, OSError: the broker cannot be reached.
    """
    obstacle = obstacle_to_trials(conflict, reader)
    if obstacle or conflict.table is None:
        raise RequestError(obstacle, "Open another conflict.", field="conflict")
    if len(condition) > PREVIEW_CONDITION:
        msg = f"The condition has {len(condition):,} characters."
        raise RequestError(msg, f"Use at most {PREVIEW_CONDITION:,}.", field="condition")
    check_condition(conflict.table, condition)
    end_lost_reads()
    now = timezone.now()
    earlier = ConflictTrials.objects.filter(conflict=conflict).first()
    with transaction.atomic():
        trials, is_new = ConflictTrials.objects.get_or_create(
            conflict=conflict, defaults={"asked_at": now, "condition": condition}
        )
        if not is_new and is_waiting(trials) and trials.condition == condition:
            return trials
        check_room(reader.account)
        trials.asked_at, trials.read_at, trials.condition = now, None, condition
        trials.answers, trials.error_code, trials.error_message = {}, "", ""
        trials.save()
        subject = f"fixes of conflict c-{conflict.pk}"
        read = note_read(trials, now, conflict.table, subject, reader.account)
    send_read(read, TRY_FIXES, trials, earlier)
    trials.refresh_from_db()
    return trials


def changes_to_try(conflict: Conflict, condition: str) -> Mapping[str, TrialChange]:
    """Return the changes to try for a conflict, the unchanged write first."""
    changes = {CONTROL: AS_IT_WAS, str(_LATER): CHANGES[_LATER]}
    narrowed = find_narrowing(conflict, decision_of(conflict))
    if narrowed is not None:
        changes[NARROW] = TrialChange(condition=narrowed.condition)
    for kind in _read_remedy_kinds(conflict):
        change = CHANGES.get(kind)
        if change is not None and not change.after_winners:
            changes[str(kind)] = change
    if conflict.table and conflict.table.isolation_level == IsolationLevel.WRITE_SERIALIZABLE:
        changes[LEVEL] = SERIALIZABLE
    if condition:
        changes[CONDITION] = TrialChange(condition=condition)
    return changes


def versions_overlapped(conflict: Conflict) -> range:
    """Return the versions that overlapped with the write: those before its commit."""
    read, winning = conflict.read_version or 0, conflict.winning_version or 0
    tried = conflict.attempted_version
    return range(read + 1, max(winning, (tried or 0) - 1) + 1)


def find_winning_commands(conflict: Conflict) -> Mapping[int, Command | None]:
    """Return the overlapping versions with their commands, if fully known."""
    table, versions = conflict.table, versions_overlapped(conflict)
    commands: dict[int, Command | None] = dict.fromkeys(versions)
    if table is None:
        return commands
    inside = {"committed_version__gte": versions.start, "committed_version__lt": versions.stop}
    logged = table.commits.filter(version__gte=versions.start, version__lt=versions.stop)
    for version, operation, where in logged.values_list("version", "operation", "predicate"):
        if operation == "DELETE" and where:
            commands[version] = _parse_single_command(f"DELETE FROM t WHERE {where}")  # noqa: S608 - parsed, not run
    reported = PipelineTransaction.objects.filter(
        filter_current_table(table, "ended_at"), table=table, **inside
    )
    for done in reported.only("committed_version", "statement"):
        if done.committed_version is not None:
            commands[done.committed_version] = _parse_single_command(done.statement)
    made = Job.objects.filter(filter_current_table(table, "finished_at"), table=table, **inside)
    for job in made.filter(dry_run=False):
        if job.committed_version is not None:
            commands[job.committed_version] = _job_command(job)
    return commands


def answer_text(tried: TrialOutcome, duration_ms: int) -> dict[str, Any]:
    """Return an answer as it is stored."""
    return {
        "verdict": str(tried.verdict),
        "why": tried.why,
        "rule": str(tried.rule or ""),
        "winning_version": tried.winning_version,
        "rows": _rows_of(tried.metrics),
        "needs_spark": tried.needs_spark,
        "duration_ms": duration_ms,
    }


def _answer_from(given: Mapping[str, Any]) -> TrialAnswer:
    return TrialAnswer(
        str(given.get("verdict", "")),
        str(given.get("why", "")),
        given.get("winning_version"),
        given.get("rows"),
        given.get("needs_spark") is True,
    )


def _rows_of(metrics: Mapping[str, Any]) -> int | None:
    counts = [metrics[name] for name in _ROWS if name in metrics]
    return next((int(count) for count in counts if str(count).isdecimal()), None)


def _read_remedy_kinds(conflict: Conflict) -> list[RemedyKind]:
    remedies = conflict.facts.get("remedies") if isinstance(conflict.facts, dict) else None
    given = [remedy.get("kind") for remedy in remedies or () if isinstance(remedy, dict)]
    return [RemedyKind(kind) for kind in dict.fromkeys(given) if kind in set(RemedyKind)]


def _may_read(conflict: Conflict, reader: Reader) -> bool:
    job, reported = conflict.job, conflict.transaction
    if job is not None:
        return reader.may_read(job)
    return reported is None or reader.may_read_statement(reported.statement)


def _job_command(job: Job) -> Command | None:
    try:
        command = command_of(job)
    except (EngineError, TypeError):
        return None
    return None if commits_by_step(command) else command


def _parse_single_command(text: str) -> Command | None:
    try:
        command = parse_statement(text) if text else None
    except EngineError:
        return None
    return None if command is None or commits_by_step(command) else command
