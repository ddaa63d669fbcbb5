"""One winner held against a contender: files first, and rows only where files would conflict."""

from dataclasses import dataclass, replace
from typing import Protocol

from engine.conflicts.checker import FILE_RULES, check_conflicts, find_conflict
from engine.conflicts.meeting import Meeting
from engine.conflicts.rebase import Pending
from engine.conflicts.row_level import Settled
from engine.conflicts.transaction_info import WinningCommit
from engine.transaction.contender import Contender
from engine.transaction.outcome import AbsorbedConflict


@dataclass(frozen=True, slots=True)
class Resolution:
    """What rows made of a winner, and how long it took."""

    settled: Settled
    duration_ms: int


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
        return contender.past(winner)
    if rows is None or conflict.conflict.rule not in FILE_RULES:
        raise conflict
    resolution = rows.resolve(meeting, contender.pending)
    settled = resolution.settled
    check_conflicts(replace(meeting, evidence=settled.evidence))
    absorbed = AbsorbedConflict(
        winner=winner.side,
        rule=conflict.conflict.rule,
        files=tuple(each.path for each in conflict.conflict.files),
        row_count=settled.row_count,
        how=settled.how,
        duration_ms=resolution.duration_ms,
        rows=settled.rows,
    )
    carried = replace(
        contender,
        current=settled.current,
        pending=settled.pending,
        absorbed=(*contender.absorbed, absorbed),
    )
    return carried.past(winner)
