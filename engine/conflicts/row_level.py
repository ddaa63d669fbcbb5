"""Row-level concurrency: operations on different rows of one file do not conflict.

For a winning commit in conflict at file level, `resolve_by_rows` collects evidence: its added files
without rows this transaction should have read, and its removed rows this transaction neither
changed nor read. It decides nothing: the checks run again with this evidence. After an error files
decide, so nothing is ever guessed (SEMANTICS: row-level concurrency).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.conflict_facts import Subclass
from engine.conflicts.budget import BudgetSpentError
from engine.conflicts.footprint import is_rearrangement, rearranges
from engine.conflicts.overlap import Overlap, RowEvidence
from engine.conflicts.rebase import PendingVectors, restage
from engine.conflicts.row_access import RowAccess
from engine.conflicts.row_map import RowMap
from engine.conflicts.row_moves import carry_own_output, follow_rows
from engine.conflicts.row_pairs import compare_rows
from engine.conflicts.row_resolution import RowResolution
from engine.conflicts.transaction_info import CurrentTransaction
from engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class RowLevelOutcome:
    """Row-level evidence on one winning commit, and this transaction rebased over it."""

    evidence: RowEvidence
    current: CurrentTransaction
    pending: PendingVectors
    row_count: int = 0
    gone_count: int = 0
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    how: str = ""


def row_fallback(overlap: Overlap) -> str | None:
    """Explain why only files can decide about this winning commit; None if rows can. Reads no file."""
    current = overlap.current
    if current.replaces_state:
        return f"{current.operation} sets the whole table"
    if rearranges(current) or is_rearrangement(overlap.winner):
        return None if current.rows.traces_moves else "deletion vectors are not enabled"
    return current.rows.obstacle


def resolve_by_rows(
    overlap: Overlap, pending: PendingVectors, rows: RowAccess, own_map: Callable[[], RowMap]
) -> RowLevelOutcome:
    """Collect row-level evidence; `own_map` traces rows moved by this transaction."""
    reason = row_fallback(overlap)
    if reason is not None:
        return _keep_conflict(overlap, pending, RowEvidence(note=reason))
    out = RowResolution()
    try:
        if rearranges(overlap.current):
            carry_own_output(overlap, pending, own_map(), rows, out)
        elif is_rearrangement(overlap.winner):
            follow_rows(overlap, pending, rows, out)
        else:
            compare_rows(overlap, pending, rows, out)
    except BudgetSpentError as late:
        compared = tuple(out.compared)
        evidence = RowEvidence(
            subclass=Subclass.ALLOTTED_TIME_EXCEEDED,
            note=late.what,
            is_partial=True,
            compared=compared,
        )
        return _keep_conflict(overlap, pending, evidence)
    except EngineError as error:
        note = f"the rows could not be read: {error.what}"
        evidence = RowEvidence(note=note, is_partial=True, compared=tuple(out.compared))
        return _keep_conflict(overlap, pending, evidence)
    current, carried = restage(overlap.current, pending, out)
    how = ", ".join(sorted(out.means))
    return RowLevelOutcome(
        out.evidence(), current, carried, out.row_count, out.gone_count, out.rows, how
    )


def _keep_conflict(
    overlap: Overlap, pending: PendingVectors, evidence: RowEvidence
) -> RowLevelOutcome:
    return RowLevelOutcome(evidence, overlap.current, pending)
