"""The positions of a message's facts, so that a reader can check the parsing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakeui.conflicts.reports.commit_text import CommitText
from lakeui.conflicts.reports.text import PlainText

_COMMIT = re.compile(r"onflicting commit:\s{0,9}\{")


@dataclass(frozen=True, slots=True)
class FactMark:
    """A fact and its part of the pasted text, `start` to `end`; numbered from 1."""

    number: int
    fact: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FactPlace:
    """A fact and its position in the plain text."""

    fact: str
    start: int
    end: int


def marks_of(plain: PlainText, places: Iterator[FactPlace]) -> tuple[FactMark, ...]:
    """Return marks in the order of the text, without overlapping ones."""
    marks: list[FactMark] = []
    for place in sorted(places, key=lambda mark: (mark.start, -mark.end)):
        start, end = plain.origin(place.start), plain.origin(place.end - 1) + 1
        if start < end and (not marks or start >= marks[-1].end):
            marks.append(FactMark(len(marks) + 1, place.fact, start, end))
    return tuple(marks)


def commit_places(message: str, winner: CommitText, offset: int) -> Iterator[FactPlace]:
    """Yield the positions of the winning commit's own fields; `offset` is the message's start."""
    opened = _COMMIT.search(message)
    if opened is None:
        return
    for fact, field, value in _fields(winner):
        pattern = rf'"{field}"\s{{0,9}}:\s{{0,9}}"?({re.escape(value)})'
        if match := re.compile(pattern).search(message, opened.end()):
            yield FactPlace(fact, offset + match.start(1), offset + match.end(1))


def place_of(fact: str, pattern: str, message: str, offset: int) -> Iterator[FactPlace]:
    """Yield the first position of a pattern's first matching group."""
    if (match := re.search(pattern, message)) is not None:
        group = match.lastindex or 0
        yield FactPlace(fact, offset + match.start(group), offset + match.end(group))


def _fields(winner: CommitText) -> Iterator[tuple[str, str, str]]:
    named = (
        ("winning_version", "version", winner.version),
        ("winner_at", "timestamp", winner.timestamp_ms),
        ("winner_operation", "operation", winner.operation),
        ("winner_user", "userName", winner.user),
        ("winner_read_version", "readVersion", winner.read_version),
        ("isolation_level", "isolationLevel", winner.isolation_level),
        ("is_blind_append", "isBlindAppend", _word(winner.is_blind_append)),
        ("winner_engine", "engineInfo", winner.engine),
        ("txn_id", "txnId", winner.txn_id),
    )
    for fact, field, value in named:
        if value is not None:
            yield fact, field, str(value)


def _word(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()
