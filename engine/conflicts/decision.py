"""How a conflict came to be decided, put together for whoever records it."""

from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import Decision, WinnerVerdicts
from engine.conflicts.overlap import Overlap
from engine.conflicts.side_files import changes_made, files_touched, reads_made
from engine.errors import ConflictFacts

WINNERS_KEPT = 50


def remembered(
    trail: tuple[WinnerVerdicts, ...], met: WinnerVerdicts
) -> tuple[WinnerVerdicts, ...]:
    """The verdicts on the last winners, this one the latest."""
    return (*trail[1 - WINNERS_KEPT :], met)


def decision_of(
    overlap: Overlap,
    facts: ConflictFacts,
    trail: Sequence[WinnerVerdicts],
    vectors: Mapping[str, BitMap64],
) -> Decision:
    """Both sides in numbers and files, and the winners so far.

    `facts` are of what files, or files and rows, found; `trail` ends with the winner at hand;
    `vectors` are the deletion vectors that current is still to write.
    """
    current, winner = overlap.current, overlap.winner
    paths = {file.path for file in facts.files}
    theirs: list[AddFile | RemoveFile] = [*winner.removes, *winner.adds]
    shared = tuple({action.path: action for action in theirs if action.path in paths}.values())
    layout = current.layout
    before = winner.version - current.read_version - len(trail)
    return Decision(
        reads=reads_made(current),
        current_changes=changes_made(current.actions, vectors),
        winner_changes=changes_made(winner.actions),
        winners=tuple(trail),
        winners_before=max(0, before),
        shared_files=overlap.evidence.compared,
        order_column=layout.column,
        table_files=layout.file_count,
        current_files=files_touched(current.actions, layout, shared, vectors, current.read_files),
        winner_files=files_touched(winner.actions, layout, shared),
        duration_ms=trail[-1].duration_ms if trail else None,
    )
