"""One winner held against a contender: files first, and rows only where files would conflict."""

from dataclasses import dataclass, replace
from typing import Protocol

from engine.conflicts.checker import check_conflicts, find_conflict
from engine.conflicts.meeting import Meeting, RowEvidence
from engine.conflicts.rebase import Pending
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.transaction.contender import Contender
from engine.transaction.outcome import AbsorbedConflict


@dataclass(frozen=True, slots=True)
class Resolution:
    """What rows made of a winner: the evidence for the checks, and current on the state after it."""

    evidence: RowEvidence
    current: CurrentTransaction
    pending: Pending
    absorbed: AbsorbedConflict


class RowResolver(Protocol):
    """How rows are told apart, with whatever I/O that takes."""

    def resolve(self, meeting: Meeting, pending: Pending, rule: str) -> Resolution | None:
        """What rows say of a winner that files alone would stop; None where only files count."""
        ...

    def write_vectors(self, contender: Contender) -> Contender:
        """The contender with its pending deletion vectors written and named by its actions."""
        ...


class FilesAlone:
    """No rows are looked at: files decide."""

    def resolve(self, meeting: Meeting, pending: Pending, rule: str) -> Resolution | None:  # noqa: ARG002
        """Nothing."""
        return None

    def write_vectors(self, contender: Contender) -> Contender:
        """The contender itself."""
        return contender


def validate(contender: Contender, winner: WinningCommit, rows: RowResolver) -> Contender:
    """The contender on the state that a winner left.

    Raises:
        ConflictError: the two sides meet, and rows do not tell them apart.
    """
    meeting = Meeting(contender.current, winner, contender.exempted)
    conflict = find_conflict(meeting)
    if conflict is None:
        return contender.past(winner)
    resolution = rows.resolve(meeting, contender.pending, conflict.conflict.rule)
    if resolution is None:
        raise conflict
    check_conflicts(replace(meeting, evidence=resolution.evidence))
    carried = replace(
        contender,
        current=resolution.current,
        pending=resolution.pending,
        absorbed=(*contender.absorbed, resolution.absorbed),
    )
    return carried.past(winner)
