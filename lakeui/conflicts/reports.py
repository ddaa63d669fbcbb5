"""Conflict errors of other engines, as people paste them: whole or cut, alone or in a log.

A pure function from text to what it says. What a message leaves out stays None, never a guess.
"""

import re
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import Remedy, RequestError
from lakeui.conflicts.commit_text import CommitText, find_commit
from lakeui.conflicts.report_remedies import remedies_for
from lakeui.conflicts.report_signs import (
    KINDS,
    OTHER_SIGNS,
    SOURCE_SIGNS,
    SUBCLASSES,
    Kind,
    Source,
)

MAX_REPORT_CHARS = 1_000_000
_QUOTED = re.compile(r'onflicting commit:(?:\\{1,8}[nrt]|\s){0,9}\{(\\{1,7})"')  # levels: 1, 3, 7
_SPAN = 6_000  # how far after its first sign a message's details are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedConflict:
    """What a message says about a conflict. None or empty: it does not say."""

    exception: str
    code: str
    subclass: str
    sqlstate: str
    source: Source
    meaning: str
    table: str | None
    winning_version: int | None
    winner_operation: str | None
    read_version: int | None
    winner: CommitText | None
    partitions: tuple[str, ...]
    file: str | None
    can_retry: bool
    remedies: tuple[Remedy, ...]
    excerpt: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "source": str(self.source)}


@dataclass(frozen=True, slots=True)
class Report:
    """The first conflict of a text, how many more there are, and what else was recognised."""

    conflict: ReportedConflict | None
    more: int = 0
    recognised: tuple[str, ...] = ()


def parse_report(text: str) -> Report:
    """Find the conflict in a text.

    Raises:
        RequestError: there is no text, or more than `MAX_REPORT_CHARS` of it.
    """
    if not text.strip():
        msg = "There is nothing to explain."
        raise RequestError(msg, "Paste the error's text, or the log around it.", field="text")
    if len(text) > MAX_REPORT_CHARS:
        msg = f"The text has {len(text):,} characters; up to {MAX_REPORT_CHARS:,} are read."
        raise RequestError(msg, "Cut it down to the part around the error.", field="text")
    flat = _flat(text)
    signs = sorted(_signs(flat), key=lambda sign: (sign[0], KINDS.index(sign[1])))
    if not signs:
        return Report(None, recognised=tuple(_recognised(flat)))
    start, kind = signs[0]
    end = next((at for at, other in signs if at > start and other != kind), start + _SPAN)
    around = flat[max(0, start - 300) : max(end, start + 1)]
    return Report(_conflict(kind, flat[start:end], around), more=_others(signs, kind, flat))


def _flat(text: str) -> str:
    """One line, with the escapes undone that a JSON log or a repr puts around a message."""
    quoted = _QUOTED.search(text)
    for _ in range(len(quoted[1]).bit_length() if quoted else 0):
        text = re.sub(r'\\(["\\/])', r"\1", text)
    return re.sub(r"(?:\\{1,8}[nrt]|[\s\u2028])+(?:\|\s)?", " ", text)


def _signs(flat: str) -> list[tuple[int, Kind]]:
    found: list[tuple[int, Kind]] = []
    for kind in KINDS:
        names = rf"\b{kind.code}\b" + (rf"|\b{kind.exception}\b" if kind.exception else "")
        pattern = re.compile("|".join([names, *(f"(?i:{each})" for each in kind.sentences)]))
        found.extend((match.start(), kind) for match in pattern.finditer(flat))
    return found


def _conflict(kind: Kind, message: str, around: str) -> ReportedConflict:
    winner = find_commit(message)
    subclass = _subclass(kind, message)
    partitions = _partitions(message)
    return ReportedConflict(
        exception=kind.exception,
        code=kind.code,
        subclass=subclass,
        sqlstate="40000" if kind.code == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED" else "2D521",
        source=_source(around),
        meaning=" ".join(part for part in (kind.meaning, SUBCLASSES.get(subclass, "")) if part),
        table=_table(message),
        winning_version=_winning_version(message, winner),
        winner_operation=_winner_operation(message, winner),
        read_version=_number(
            message, r"reading version (\d{1,18})|Commit started at version: (\d{1,18})"
        ),
        winner=winner,
        partitions=partitions,
        file=_first(
            message, r"\(for example (.{1,1000}?)(?: in partition .{0,300}?)?\) by a concurrent"
        ),
        can_retry=kind.can_retry,
        remedies=remedies_for(kind.code, subclass, bool(partitions)),
        excerpt=message[:500].strip(),
    )


def _subclass(kind: Kind, message: str) -> str:
    named = _first(message, rf"{kind.code}\.([A-Z_]{{3,60}})")
    if named in SUBCLASSES:
        return str(named)
    return next((name for name in SUBCLASSES if re.search(rf"\b{name}\b", message)), "")


def _source(around: str) -> Source:
    return next((source for source, sign in SOURCE_SIGNS if sign.search(around)), Source.UNKNOWN)


def _table(message: str) -> str | None:
    ours = _first(message, r"\bVersion \d{1,18} \([^)]{1,60}\) of (\S{1,300})")
    return ours or _first(message, r"\b(?:to|from) table (.{1,300}?) \(?committed at version")


def _partitions(message: str) -> tuple[str, ...]:
    found = _first(message, r"\bpartitions? ((?:\[[^\]]{1,300}\](?:, ?)?){1,50})")
    if found:
        return tuple(re.findall(r"\[([^\]]+)\]", found))
    ours = _first(message, r"\b\d+ files? in (\w+=.{1,500}?) that this ")
    return tuple(ours.split(", ")) if ours else ()


def _winning_version(message: str, winner: CommitText | None) -> int | None:
    if winner is not None and winner.version is not None:
        return winner.version
    return _number(message, r"committed at version (\d{1,18})|\bVersion (\d{1,18}) \([A-Z]")


def _winner_operation(message: str, winner: CommitText | None) -> str | None:
    if winner is not None and winner.operation:
        return winner.operation
    ours = _first(message, r"\bVersion \d{1,18} \(([A-Z][A-Z ]{1,60})\)")
    return ours or _first(message, r"(?i:a concurrent) ([A-Z][A-Z ]{1,60}?) (?:added|deleted) data")


def _number(message: str, pattern: str) -> int | None:
    match = re.search(pattern, message)
    return int(next(group for group in match.groups() if group)) if match else None


def _first(message: str, pattern: str) -> str | None:
    match = re.search(pattern, message)
    return match[1].strip(" `") if match else None


def _others(signs: list[tuple[int, Kind]], kind: Kind, flat: str) -> int:
    """Other conflicts in the text: other kinds, and other winners."""
    kinds = {other.code for _, other in signs} - {kind.code}
    commits = set(re.findall(r'"txnId"\s*:\s*"([^"]{1,100})"', flat))
    return max(len(kinds), len(commits) - 1, 0)


def _recognised(flat: str) -> list[str]:
    found = []
    for words, sign in OTHER_SIGNS:
        if match := sign.search(flat):
            found.append(words.format(*match.groups()))
    return found
