"""One winner held against a contender: files first, and rows only where files would conflict."""

from dataclasses import dataclass, replace
from typing import Protocol

from engine.conflict_facts import Decision, WinnerVerdicts
from engine.conflicts.checker import FILE_RULES, find_conflict
from engine.conflicts.decision import decision_of, remembered
from engine.conflicts.meeting import Meeting
from engine.conflicts.rebase import Pending
from engine.conflicts.row_level import Settled
from engine.conflicts.transaction_info import WinningCommit
from engine.conflicts.verdicts import passed_by_files, passed_by_rows, stopped
from engine.errors import ConflictError
from engine.transaction.contender import Contender
from engine.transaction.outcome import AbsorbedConflict


@dataclass(frozen=True, slots=True)
class Resolution:
    """What rows made of a winner, how long it took of which budget, and how many files it read."""

    settled: Settled
    duration_ms: int
    files_opened: int = 0
    budget_ms: int | None = None


class RowResolver(Protocol):
    """How rows are told apart, with whatever I/O that takes."""

    def resolve(self, meeting: Meeting, pending: Pending) -> Resolution:
        """What rows say of a winner that files alone would stop. Never fails: then files decide."""
        ...

    def write_vectors(self, contender: Contender) -> Contender:
        """The contender with its pending deletion vectors written and named by its actions."""
        ...


def validate(contender: Contender, winner: WinningCommit, rows: RowResolver | None) -> Contender:
    """The contender on the state that a winner left; without `rows` files alone decide.

    Raises:
        ConflictError: the two sides meet, and rows do not tell them apart.
    """
    meeting = Meeting(contender.current, winner, contender.exempted)
    conflict = find_conflict(meeting)
    if conflict is None:
        return contender.past(winner, passed_by_files(meeting))
    if rows is None or conflict.conflict.rule not in FILE_RULES:
        raise _told(conflict, meeting, contender)
    resolution = rows.resolve(meeting, contender.pending)
    settled = resolution.settled
    evident = replace(meeting, evidence=settled.evidence)
    lost = find_conflict(evident)
    if lost is not None:
        raise _told(lost, evident, contender, resolution)
    met = passed_by_rows(evident, settled.how, resolution.duration_ms)
    absorbed = AbsorbedConflict(
        winner=winner.side,
        rule=conflict.conflict.rule,
        files=tuple(each.path for each in conflict.conflict.files),
        row_count=settled.row_count,
        how=settled.how,
        duration_ms=resolution.duration_ms,
        rows=settled.rows,
        decision=_decision(conflict, evident, contender, met, resolution),
    )
    carried = replace(
        contender,
        current=settled.current,
        pending=settled.pending,
        absorbed=(*contender.absorbed, absorbed),
    )
    return carried.past(winner, met)


def _told(
    conflict: ConflictError,
    meeting: Meeting,
    contender: Contender,
    resolution: Resolution | None = None,
) -> ConflictError:
    """The same conflict with how it was decided."""
    facts = conflict.conflict
    met = stopped(meeting, facts.rule, resolution.duration_ms if resolution else None)
    decision = _decision(conflict, meeting, contender, met, resolution)
    return type(conflict)(replace(facts, decision=decision))


def _decision(
    conflict: ConflictError,
    meeting: Meeting,
    contender: Contender,
    met: WinnerVerdicts,
    resolution: Resolution | None,
) -> Decision:
    trail = remembered(contender.trail, met)
    decision = decision_of(meeting, conflict.conflict, trail, contender.pending.vectors)
    if resolution is None:
        return decision
    return replace(decision, budget_ms=resolution.budget_ms, files_opened=resolution.files_opened)
