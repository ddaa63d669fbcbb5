"""What a conflict's page says: its title, its rules by name, the verdicts of the checks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.conflict_facts import Decision, WinnerVerdicts
from engine.conflicts.checker import CHECKS
from engine.conflicts.verdicts import CONFLICT, EXEMPT, NONE, NOT_REACHED, PASS, ROW_MAP, ROWS
from lakeui.conflicts.models import Conflict
from lakeui.pages.units import format_count

RULES = {
    "protocol_changed": "The winner changed the protocol",
    "metadata_changed": "The winner changed the metadata",
    "domain_written": "Both wrote one metadata domain",
    "application_committed": "Both used one application id",
    "data_added": "The winner added data that this write should have read",
    "read_file_removed": "The winner removed or rewrote files that this write read",
    "removed_file_removed": "Both delete the same files",
}
_SHORT = {
    "protocol_changed": "Protocol",
    "metadata_changed": "Metadata",
    "domain_written": "Domains",
    "application_committed": "App transactions",
    "data_added": "Added files",
    "read_file_removed": "Deleted files read",
    "removed_file_removed": "Deleted files deleted",
}
_HEADLINES = {
    "protocol_changed": "The protocol changed under a write",
    "metadata_changed": "The table changed under a write",
    "application_committed": "Two writers under one application id",
    "domain_written": "Two writers of one metadata domain",
    "data_added": "New data that a write should have read",
    "removed_file_removed": "Two writes that delete the same files",
}
_MARKS = {
    NONE: ("none", "none"),
    EXEMPT: ("none", "exempt"),
    PASS: ("ok", "pass"),
    ROWS: ("joint", "other rows"),
    ROW_MAP: ("joint", "row map"),
    NOT_REACHED: ("none", "not reached"),
}


@dataclass(frozen=True, slots=True)
class CheckCell:
    """What one check said of one winner."""

    mark: str
    text: str
    is_hit: bool = False


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One of the seven checks, against each winner in order."""

    number: int
    name: str
    text: str
    cells: tuple[CheckCell, ...]


def headline(conflict: Conflict) -> str:
    """What happened, in a few words."""
    if conflict.kind == Conflict.Kind.ABSORBED:
        return "Two writes met, and both landed"
    if conflict.row_count:
        rows = f"{conflict.row_count:,} rows" if conflict.row_count > 1 else "row"
        return f"Two writes of the same {rows}"
    return _HEADLINES.get(conflict.rule, "Two writes met, and one lost")


def check_number(conflict: Conflict) -> int | None:
    """Which of the checks fired, counted from 1; None where that is not recorded."""
    names = [check.name for check in CHECKS]
    return names.index(conflict.rule) + 1 if conflict.rule in names else None


def decided(conflict: Conflict, decision: Decision | None) -> tuple[CheckRow, ...]:
    """A row each check, a cell each winner; for losses recorded without, of the one that won."""
    winners = decision.winners if decision else tuple(_guessed(conflict))
    if not winners:
        return ()
    return tuple(
        CheckRow(
            number,
            _SHORT[check.name],
            RULES[check.name],
            tuple(_cell(conflict, each, check.name) for each in winners),
        )
        for number, check in enumerate(CHECKS, 1)
    )


def winners_of(conflict: Conflict, decision: Decision | None) -> Sequence[WinnerVerdicts]:
    """The winners that the cells are of."""
    return decision.winners if decision else tuple(_guessed(conflict))


def _guessed(conflict: Conflict) -> Iterator[WinnerVerdicts]:
    """The order of the checks alone tells what came before the one that fired."""
    hit = check_number(conflict)
    if hit is None or conflict.kind == Conflict.Kind.ABSORBED or conflict.winning_version is None:
        return
    verdicts = {
        check.name: PASS if number < hit else CONFLICT if number == hit else NOT_REACHED
        for number, check in enumerate(CHECKS, 1)
    }
    yield WinnerVerdicts(conflict.winning_version, conflict.winner_operation, verdicts)


def _cell(conflict: Conflict, winner: WinnerVerdicts, rule: str) -> CheckCell:
    verdict = winner.verdicts.get(rule, "")
    if verdict == CONFLICT:
        return CheckCell("x", _hit(conflict), is_hit=True)
    if verdict == ROWS and rule == "data_added":
        return CheckCell("ok", "no new rows")
    mark, text = _MARKS.get(verdict, ("none", "not recorded"))
    return CheckCell(mark, text)


def _hit(conflict: Conflict) -> str:
    if conflict.row_count:
        return "1 row" if conflict.row_count == 1 else f"{format_count(conflict.row_count)} rows"
    if conflict.file_count:
        return (
            "1 file" if conflict.file_count == 1 else f"{format_count(conflict.file_count)} files"
        )
    return "here"
