"""A pasted message as a page shows it: its text with the facts marked, and the facts one by one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from engine.clock import utc_from_ms
from lakeui.catalog import log_values
from lakeui.conflicts.reports.links import LinkedReport
from lakeui.conflicts.reports.marks import Mark
from lakeui.conflicts.reports.messages import ReportedConflict
from lakeui.conflicts.reports.signs import SUBCLASSES

_BEFORE, _AFTER, _BETWEEN = 300, 200, 700
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200d\u2060\ufeff]")

LABELS = {
    "exception": "Exception",
    "subclass": "Sub-class",
    "partitions": "Partition",
    "file": "A file",
    "table": "Table",
    "winning_version": "Winner's version",
    "winner_at": "Winner's time",
    "winner_operation": "Winner's operation",
    "winner_rows": "Its new rows",
    "winner_user": "Winner",
    "winner_read_version": "The winner read",
    "isolation_level": "Level it used",
    "is_blind_append": "Blind append",
    "winner_engine": "Its engine",
    "txn_id": "Transaction",
    "read_version": "This write read",
    "current_operation": "This write",
}
_OF_WINNER = {
    "winning_version": "version",
    "winner_at": "time",
    "winner_operation": "operation",
    "isolation_level": "level",
    "txn_id": "transaction",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the pasted text; `number` of the fact it tells, 0 where it tells none."""

    text: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class FactLine:
    """A fact under the number of its mark. `at` is set where it is a moment."""

    fact: str
    label: str
    value: str
    note: str = ""
    at: datetime | None = None


def pieces_of(text: str, marks: tuple[Mark, ...]) -> list[Piece]:
    """The pasted text around its marks, long stretches without one left out."""
    if not marks:
        return []
    start = _line_start(text, max(marks[0].start - _BEFORE, 0), marks[0].start)
    pieces = [Piece("… ")] if start else []
    for mark in marks:
        pieces += (Piece(_shortened(text[start : mark.start])), _marked(text, mark))
        start = mark.end
    rest = text[start : start + _AFTER]
    pieces.append(Piece(_shown(rest) + (" …" if len(text) > start + _AFTER else "")))
    return [piece for piece in pieces if piece.text]


def fact_lines(linked: LinkedReport) -> list[FactLine]:
    """The facts in the order of their marks."""
    found = linked.report.conflict
    if found is None:
        return []
    values = dict(_values(found, linked))
    return [values[mark.fact] for mark in linked.report.marks if mark.fact in values]


def missing_facts(linked: LinkedReport) -> dict[str, str]:
    """What the message does not say, of the winner and of this write."""
    told = {mark.fact for mark in linked.report.marks}
    winner = ", ".join(word for fact, word in _OF_WINNER.items() if fact not in told)
    own = (("current_operation", "operation"), ("read_version", "read version"), ("", "condition"))
    mine = ", ".join(word for fact, word in own if fact not in told)
    return {name: words for name, words in (("The winner", winner), ("This write", mine)) if words}


def _values(found: ReportedConflict, linked: LinkedReport) -> Iterator[tuple[str, FactLine]]:
    for fact, value, note in (*_of_message(found, linked), *_of_winner(found, linked)):
        moment = utc_from_ms(int(value)) if fact == "winner_at" else None
        yield fact, FactLine(fact, LABELS[fact], value, note, moment)


def _of_message(found: ReportedConflict, linked: LinkedReport) -> Iterator[tuple[str, str, str]]:
    yield "exception", found.code, f"SQLSTATE {found.sqlstate}"
    yield "subclass", found.subclass, SUBCLASSES.get(found.subclass, "")
    yield "partitions", ", ".join(found.partitions), ""
    yield "file", found.file or "", ""
    yield "table", found.table or "", "" if linked.table else "not registered here"
    yield "winning_version", str(linked.winning_version), _how(linked)
    yield "winner_rows", f"{found.winner_rows or 0:,}", ""
    yield "read_version", f"v{found.read_version}", "the version it read"
    yield "current_operation", found.current_operation or "", ""


def _of_winner(found: ReportedConflict, linked: LinkedReport) -> Iterator[tuple[str, str, str]]:
    yield "winner_operation", found.winner_operation or "", ""
    winner = found.winner
    if winner is None:
        return
    if winner.timestamp_ms is not None and _is_a_moment(winner.timestamp_ms):
        yield "winner_at", str(winner.timestamp_ms), ""
    condition = log_values.predicate({"predicate": winner.predicate})
    yield "winner_operation", found.winner_operation or "", condition and f"where {condition}"
    yield "winner_user", winner.user or "", ""
    yield "winner_read_version", f"v{winner.read_version}", ""
    yield "isolation_level", winner.isolation_level or "", ""
    yield "is_blind_append", "yes" if winner.is_blind_append else "no", ""
    yield "winner_engine", winner.engine or "", ""
    yield "txn_id", winner.txn_id or "", _how(linked) or "not in the mirror"


def _how(linked: LinkedReport) -> str:
    return f"found by {linked.how}" if linked.how else ""


def _is_a_moment(epoch_ms: int) -> bool:
    return 0 < epoch_ms < 253_402_300_800_000  # before the year 10000


def _marked(text: str, mark: Mark) -> Piece:
    return Piece(_shown(text[mark.start : mark.end]), mark.number)


def _line_start(text: str, earliest: int, before: int) -> int:
    """The first start of a line from a place on; the place itself where there is none."""
    at = text.find("\n", earliest, before) if earliest else -1
    return at + 1 if at >= 0 else earliest


def _shortened(text: str) -> str:
    if len(text) <= _BETWEEN:
        return _shown(text)
    half = _BETWEEN // 2
    return f"{_shown(text[:half])} … {_shown(text[-half:])}"


def _shown(text: str) -> str:
    """Without what no screen can show."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n"))
