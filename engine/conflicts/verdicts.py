"""What each of the seven checks said of a winner, in words that are kept beside a conflict.

Nothing here decides: the verdict is there already, and this tells how it came about.
"""

from dataclasses import replace

from engine.conflict_facts import WinnerVerdicts
from engine.conflicts.candidates import is_exempt
from engine.conflicts.checker import CHECKS, FILE_RULES, Check
from engine.conflicts.footprint import is_rearrangement, rearranges
from engine.conflicts.meeting import FILES_ALONE, Meeting

NONE, EXEMPT, PASS, ROWS, ROW_MAP = "none", "exempt", "pass", "rows", "row map"
CONFLICT, NOT_REACHED = "conflict", "not reached"
_DATA_ADDED = "data_added"


def passed_by_files(meeting: Meeting) -> WinnerVerdicts:
    """Of a winner that files alone let current pass."""
    return _of(meeting, {check.name: _nothing_found(meeting, check.name) for check in CHECKS})


def passed_by_rows(meeting: Meeting, how: str, duration_ms: int) -> WinnerVerdicts:
    """Of a winner that files would have stopped current at, and rows did not."""
    verdicts = {check.name: _with_rows(meeting, check) for check in CHECKS}
    return _of(meeting, verdicts, how, duration_ms)


def stopped(meeting: Meeting, rule: str, duration_ms: int | None = None) -> WinnerVerdicts:
    """Of the winner that current lost to, by this rule."""
    verdicts: dict[str, str] = {}
    for check in CHECKS:
        if CONFLICT in verdicts.values():
            verdicts[check.name] = NOT_REACHED
        elif check.name == rule:
            verdicts[check.name] = CONFLICT
        else:
            verdicts[check.name] = _with_rows(meeting, check)
    return _of(meeting, verdicts, duration_ms=duration_ms)


def _of(
    meeting: Meeting, verdicts: dict[str, str], how: str = "", duration_ms: int | None = None
) -> WinnerVerdicts:
    winner = meeting.winner
    return WinnerVerdicts(winner.version, winner.operation, verdicts, how, duration_ms)


def _with_rows(meeting: Meeting, check: Check) -> str:
    """Where files alone would have found something, rows took it off the table."""
    if check.name not in FILE_RULES or meeting.evidence is FILES_ALONE:
        return _nothing_found(meeting, check.name)
    if check.find(replace(meeting, evidence=FILES_ALONE)) is None:
        return _nothing_found(meeting, check.name)
    moved = is_rearrangement(meeting.winner) or rearranges(meeting.current)
    return ROW_MAP if moved else ROWS


def _nothing_found(meeting: Meeting, rule: str) -> str:
    """Of a check that let the winner pass: whether there was anything to look at."""
    if not _asks_about(meeting, rule):
        return NONE
    if rule == _DATA_ADDED and is_exempt(meeting.current, meeting.winner):
        return EXEMPT
    return PASS


def _asks_about(meeting: Meeting, rule: str) -> bool:
    winner = meeting.winner
    subjects = {
        "protocol_changed": winner.protocol,
        "metadata_changed": winner.metadata,
        "domain_written": winner.domains,
        "application_committed": winner.app_ids,
        "data_added": winner.adds,
    }
    return bool(subjects.get(rule, winner.removes))
