"""Which statements can conflict with which, computed: the checks run on an imaginary table.

A cell holds two kinds of statement together three times: on rows of different files, on different
rows of one file, and on the same row. OPTIMIZE rewrites every file, and so is never on different ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from engine.conflicts.checker import FILE_RULES, find_conflict
from engine.conflicts.meeting import Meeting
from engine.conflicts.rebase import NOTHING_PENDING
from engine.conflicts.row_level import settle_by_rows
from engine.conflicts.row_map import trace
from engine.conflicts.sketch import Setting, Sketch
from engine.conflicts.statements import Statement, as_current, as_winner
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictError

NEVER = "never"
SAME_ROW = "same row"
SAME_FILES = "same file set"
ALWAYS = "always"

GROUPS = {
    "INSERT (blind)": ("insert",),
    "UPDATE, DELETE, MERGE": ("update", "delete"),
    "OPTIMIZE": ("optimize",),
    "OPTIMIZE ZORDER BY": ("optimize zorder by",),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Two groups of statements: when they conflict, and by which exceptions."""

    current: str
    winner: str
    verdict: str
    exceptions: tuple[str, ...] = ()


def conflict_matrix(setting: Setting) -> Iterator[Cell]:
    """Every pair of groups on one kind of table. `current` is the one that commits second."""
    for current in GROUPS:
        for winner in GROUPS:
            yield _cell(current, winner, setting)


def meet(
    current: Statement, winners: tuple[Statement, ...], setting: Setting
) -> ConflictError | None:
    """What stops a statement that commits after others which did not see it; None if nothing does.

    A second winner has read what the first one left.
    """
    sketch = Sketch(setting)
    staged = as_current(current, sketch)
    exempted: tuple[WinningCommit, ...] = ()
    for number, statement in enumerate(winners):
        version = staged.read_version + 1 + number
        winner = as_winner(statement, sketch, version, f"winner{number}")
        if number:
            info = msgspec.structs.replace(winner.info, read_version=version - 1)
            winner = replace(winner, info=info)
        conflict = _settled(Meeting(staged, winner, exempted), sketch)
        if conflict is not None:
            return conflict
        exempted = (*exempted, winner) if winner.is_blind_append else exempted
    return None


def _settled(meeting: Meeting, sketch: Sketch) -> ConflictError | None:
    conflict = find_conflict(meeting)
    if conflict is None or conflict.conflict.rule not in FILE_RULES:
        return conflict
    staged = meeting.current
    settled = settle_by_rows(
        meeting, NOTHING_PENDING, sketch, lambda: trace(staged.removes, staged.adds, sketch)
    )
    return find_conflict(replace(meeting, evidence=settled.evidence))


def _cell(current: str, winner: str, setting: Setting) -> Cell:
    apart = _conflicts(current, winner, setting, _elsewhere(setting))
    other_row = _conflicts(current, winner, setting, Statement("", 2, "d1"))
    same_row = _conflicts(current, winner, setting, Statement("", 1, "d1"))
    if apart and not any("OPTIMIZE" in each for each in (current, winner)):
        verdict, found = ALWAYS, apart
    elif apart or other_row:
        verdict, found = SAME_FILES, apart + other_row
    else:
        verdict, found = (SAME_ROW if same_row else NEVER), same_row
    return Cell(current, winner, verdict, tuple(sorted({type(each).__name__ for each in found})))


def _conflicts(
    current: str, winner: str, setting: Setting, where: Statement
) -> list[ConflictError]:
    """What stops any statement of one group after any of the other that touches another place."""
    pairs = (
        (Statement(mine, 1, "d1"), (Statement(theirs, where.id, where.date),))
        for mine in GROUPS[current]
        for theirs in GROUPS[winner]
    )
    found = (meet(mine, theirs, setting) for mine, theirs in pairs)
    return [each for each in found if each is not None]


def _elsewhere(setting: Setting) -> Statement:
    return Statement("", 1, "d2") if setting.partitioned else Statement("", 5)
