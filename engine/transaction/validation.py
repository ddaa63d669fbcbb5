"""A winning commit compared with a pending commit: files first, and rows only where files would conflict."""

from dataclasses import dataclass, replace
from typing import Protocol

from engine.conflict_facts import Decision, WinnerVerdicts
from engine.conflicts.decide.checker import FILE_RULES, find_conflict
from engine.conflicts.decide.decision import (
    append_verdicts,
    decision_of,
    explain_enablement,
    pass_at_file_level,
    pass_at_row_level,
    stop_at_rule,
)
from engine.conflicts.decide.rebase import PendingVectors
from engine.conflicts.decide.row_level import RowLevelOutcome
from engine.conflicts.overlap import Overlap
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictError
from engine.transaction.pending_commit import PendingCommit, ResolvedConflict


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of row-level resolution: evidence, time, budget and number of files read."""

    settled: RowLevelOutcome
    duration_ms: int
    files_opened: int = 0
    budget_ms: int | None = None


class RowResolver(Protocol):
    """Resolves conflicts at row level, with the necessary I/O."""

    def resolve(self, overlap: Overlap, pending: PendingVectors) -> Resolution:
        """Resolve a winning commit in conflict at file level; on failure files decide."""
        ...

    def write_vectors(self, pending_commit: PendingCommit) -> PendingCommit:
        """Write the pending deletion vectors and name them in the actions."""
        ...


def validate(
    pending_commit: PendingCommit, winner: WinningCommit, rows: RowResolver | None
) -> PendingCommit:
    """Validate against a winning commit and rebase over it; without `rows` files decide.

    Raises:
        ConflictError: the two sides conflict, and rows do not resolve it.
    """
    overlap = Overlap(pending_commit.current, winner, pending_commit.exempted)
    conflict = find_conflict(overlap)
    if conflict is None:
        return _record_enablement(pending_commit, overlap).advance(
            winner, pass_at_file_level(overlap)
        )
    if rows is None or conflict.conflict.rule not in FILE_RULES:
        raise _add_decision(conflict, overlap, pending_commit)
    resolution = rows.resolve(overlap, pending_commit.pending)
    settled = resolution.settled
    evident = replace(overlap, evidence=settled.evidence)
    aborted = find_conflict(evident)
    if aborted is not None:
        raise _add_decision(aborted, evident, pending_commit, resolution)
    verdicts = pass_at_row_level(evident, settled.how, resolution.duration_ms)
    resolved = ResolvedConflict(
        current=pending_commit.current.side,
        winner=winner.side,
        rule=conflict.conflict.rule,
        files=tuple(file.path for file in conflict.conflict.files),
        row_count=settled.row_count,
        how=settled.how,
        duration_ms=resolution.duration_ms,
        rows=settled.rows,
        decision=_decision(conflict, evident, pending_commit, verdicts, resolution),
    )
    carried = replace(
        pending_commit,
        current=settled.current,
        pending=settled.pending,
        gone_count=pending_commit.add_gone(settled.gone_count),
        resolved=(*pending_commit.resolved, resolved),
    )
    return carried.advance(winner, verdicts)


def _record_enablement(pending_commit: PendingCommit, overlap: Overlap) -> PendingCommit:
    """Return the pending commit with a record of the features that the winning commit enabled."""
    heeded = find_conflict(replace(overlap, heeds_every_feature=True))
    if heeded is None:
        return pending_commit
    verdicts = pass_at_file_level(overlap)
    resolved = ResolvedConflict(
        current=pending_commit.current.side,
        winner=overlap.winner.side,
        rule=heeded.conflict.rule,
        files=(),
        row_count=0,
        how=explain_enablement(overlap),
        duration_ms=0,
        decision=_decision(heeded, overlap, pending_commit, verdicts, None),
    )
    return replace(pending_commit, resolved=(*pending_commit.resolved, resolved))


def _add_decision(
    conflict: ConflictError,
    overlap: Overlap,
    pending_commit: PendingCommit,
    resolution: Resolution | None = None,
) -> ConflictError:
    """Add the record of the decision to a conflict."""
    facts = conflict.conflict
    verdicts = stop_at_rule(overlap, facts.rule, resolution.duration_ms if resolution else None)
    decision = _decision(conflict, overlap, pending_commit, verdicts, resolution)
    return type(conflict)(replace(facts, decision=decision))


def _decision(
    conflict: ConflictError,
    overlap: Overlap,
    pending_commit: PendingCommit,
    verdicts: WinnerVerdicts,
    resolution: Resolution | None,
) -> Decision:
    trail = append_verdicts(pending_commit.trail, verdicts)
    decision = decision_of(overlap, conflict.conflict, trail, pending_commit.pending.vectors)
    if resolution is None:
        return decision
    return replace(decision, budget_ms=resolution.budget_ms, files_opened=resolution.files_opened)
