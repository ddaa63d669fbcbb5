"""What each check said of a winner, kept beside a conflict.

Nothing here decides: the outcome is there already, and this tells how it came about.
"""

from dataclasses import replace

from engine.conflict_facts import Rule, Verdict, WinnerVerdicts
from engine.conflicts.candidates import is_exempt
from engine.conflicts.checker import CHECKS, FILE_RULES, Check
from engine.conflicts.footprint import is_rearrangement, rearranges
from engine.conflicts.overlap import FILES_ALONE, Overlap

_ROW_MAP = "row map"


def passed_by_files(overlap: Overlap) -> WinnerVerdicts:
    """Of a winner that files alone let current pass."""
    return _of(overlap, {check.rule: _nothing_found(overlap, check) for check in CHECKS})


def passed_by_rows(overlap: Overlap, how: str, duration_ms: int) -> WinnerVerdicts:
    """Of a winner that files would have stopped current at, and rows did not."""
    verdicts = {check.rule: _with_rows(overlap, check) for check in CHECKS}
    return _of(overlap, verdicts, how, duration_ms)


def stopped(overlap: Overlap, rule: Rule, duration_ms: int | None = None) -> WinnerVerdicts:
    """Of the winner that current lost to, by this rule."""
    verdicts: dict[Rule, Verdict] = {}
    for check in CHECKS:
        if Verdict.CONFLICT in verdicts.values():
            verdicts[check.rule] = Verdict.NOT_REACHED
        elif check.rule is rule:
            verdicts[check.rule] = Verdict.CONFLICT
        else:
            verdicts[check.rule] = _with_rows(overlap, check)
    moved = is_rearrangement(overlap.winner) or rearranges(overlap.current)
    resolved = Verdict.RESOLVED in verdicts.values()
    return _of(overlap, verdicts, _ROW_MAP if moved and resolved else "", duration_ms)


def _of(
    overlap: Overlap, verdicts: dict[Rule, Verdict], how: str = "", duration_ms: int | None = None
) -> WinnerVerdicts:
    winner = overlap.winner
    return WinnerVerdicts(winner.version, winner.operation, verdicts, how, duration_ms)


def _with_rows(overlap: Overlap, check: Check) -> Verdict:
    """Where files alone would have found something, rows resolved it."""
    if check.rule not in FILE_RULES or overlap.evidence is FILES_ALONE:
        return _nothing_found(overlap, check)
    if check.find(replace(overlap, evidence=FILES_ALONE)) is None:
        return _nothing_found(overlap, check)
    return Verdict.RESOLVED


def _nothing_found(overlap: Overlap, check: Check) -> Verdict:
    """Of a check that let the winner pass: whether there was anything for it to look at."""
    if not check.looks_at(overlap.winner):
        return Verdict.NOTHING
    if check.rule is Rule.DATA_ADDED and is_exempt(overlap.current, overlap.winner):
        return Verdict.EXEMPT
    return Verdict.PASSES
