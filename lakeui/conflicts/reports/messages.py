"""Conflict errors of other engines, as people paste them: whole or cut, alone or in a log.

A pure function from text to facts. Facts missing from a message stay None, never a guess.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.conflict_facts import Remedy, Rule, Subclass
from engine.conflicts.decide.checker import RULE_OF_CODE, remedies_of_report
from engine.conflicts.eligibility import UNKNOWN_TABLE, TableFacts
from engine.conflicts.explain.exceptions import SUBCLASS_MEANINGS
from engine.conflicts.explain.situation import Situation
from engine.conflicts.isolation import IsolationLevel
from engine.errors import RequestError
from lakeui.conflicts.reports.signs import (
    FILES_ALONE,
    KINDS,
    OTHER_SIGNS,
    SOURCE_SIGNS,
    ConflictSigns,
    Source,
)
from lakeui.conflicts.reports.text import (
    CommitText,
    FactMark,
    FactPlace,
    PlainText,
    commit_places,
    find_commit,
    marks_of,
    place_of,
    plain_text,
)

MAX_REPORT_CHARS = 1_000_000
_SPAN = 6_000  # a message's details are searched up to here after its first sign
_IS_BLIND = "is a blind append, which counts at Serializable"
_ONE_FORMAT = frozenset({Source.DELTA_RS, Source.DELTA_KERNEL, Source.THIS_ENGINE, Source.TRINO})

_OURS = r"\b[Vv]ersion \d{1,18} \([^)]{1,60}\)"
_VALUE = r"\w{1,100}=[^\s,;()\[\]]{1,200}"

PATTERNS: Mapping[str, tuple[str, ...]] = {
    "table": (
        rf"{_OURS} of (\S{{1,300}})",
        r"\b(?:to|from|in) (?:the )?table (.{1,300}?) \(?committed at version",
    ),
    "winning_version": (
        r"committed at version (\d{1,18})",
        r"\bVersion (\d{1,18}) \([A-Z]",
        r"\bversion:? (\d{1,18}) already exists",
        r"\bVersionAlreadyExists\((\d{1,18})\)",
        r"existing table version:? (\d{1,18})",
        r"actual version: (\d{1,18})",
        r"_delta_log/0{0,19}(\d{1,18})\.json",
    ),
    "winner_operation": (
        r"\bVersion \d{1,18} \(([A-Z][A-Z ]{1,60})\)",
        r"(?i:a concurrent) ([A-Za-z][A-Za-z ]{1,60}?) (?:added|deleted) data",
    ),
    "read_version": (
        r"reading version (\d{1,18})",
        r"Commit started at version: (\d{1,18})",
        r"Expected transaction log version: (\d{1,18})",
    ),
    "current_operation": (r"\bthis ([A-Z][A-Z ]{1,30}), reading version",),
    "partitions": (
        r"\bpartition(?:s|\(s\))? ((?:\[[^\]]{1,300}\](?:, ?)?){1,50})",
        r"\b\d+ files? in (\w+=.{1,500}?) that this ",
        rf"\bpartition(?:s|\(s\))? \(?({_VALUE}(?:(?:, ?|/){_VALUE}){{0,20}})",
    ),
    "winner_rows": (
        r'"numTargetRowsInserted"\s{0,9}:\s{0,9}"?([1-9]\d{0,17})\b',
        r'"numOutputRows"\s{0,9}:\s{0,9}"?([1-9]\d{0,17})\b',
    ),
    "file": (r"\(for example (.{1,1000}?)(?: in partition .{0,300}?)?\) by a concurrent",),
}
_STREAM = re.compile(
    r"\bQuery (?:\[|(\S{1,120}) (?:\[id = |terminated with))"
    r"|\b(StreamingQueryException|MicroBatchExecution)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedConflict:
    """A message's facts of a conflict. None or empty: not stated.

    `winner_rows` are the new rows of the winning commit. `stream` is the failed streaming query, ""
    if it has no name, None if it was no stream.
    """

    exception: str
    code: str
    subclass: str
    sqlstate: str
    source: Source
    meaning: str
    table: str | None
    winning_version: int | None
    winner_operation: str | None
    winner_rows: int | None
    current_operation: str | None
    read_version: int | None
    winner: CommitText | None
    partitions: tuple[str, ...]
    file: str | None
    stream: str | None
    can_retry: bool
    remedies: tuple[Remedy, ...]
    excerpt: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "source": str(self.source)}


@dataclass(frozen=True, slots=True)
class Report:
    """The first conflict of a text, the number of others, and other recognized facts.

    `marks` are the positions of the facts in the text; `format` is the kind of message.
    """

    conflict: ReportedConflict | None
    more: int = 0
    recognized: tuple[str, ...] = ()
    marks: tuple[FactMark, ...] = ()
    format: str = ""


@dataclass(frozen=True, slots=True)
class _Sign:
    """A position in the text that identifies a kind of conflict."""

    start: int
    end: int
    kind: ConflictSigns
    is_name: bool  # of its exception or error class, not a sentence


def parse_report(text: str) -> Report:
    """Find the conflict in a text.

    Raises:
        RequestError: there is no text, or more than `MAX_REPORT_CHARS` of it.
    """
    if not text.strip():
        msg = "The text is empty."
        raise RequestError(msg, "Paste an error message, or a log that contains it.", field="text")
    if len(text) > MAX_REPORT_CHARS:
        msg = f"The text has {len(text):,} characters, but the limit is {MAX_REPORT_CHARS:,}."
        raise RequestError(msg, "Paste only the part around the error.", field="text")
    plain = plain_text(text)
    signs = sorted(_signs(plain.text), key=lambda sign: (sign.start, KINDS.index(sign.kind)))
    if not signs:
        return Report(None, recognized=tuple(_iter_other_signs(plain.text, text)))
    return _report(plain, signs)


def add_remedies(
    conflict: ReportedConflict,
    table: TableFacts = UNKNOWN_TABLE,
    *,
    level: str = "",
    winner_is_blind: bool | None = None,
) -> ReportedConflict:
    """Return the conflict with its remedies.

    `level` is the table's setting, "" if it has none or is unknown; `winner_is_blind` is a fact
    about the winning commit from outside the message.
    """
    rule, source = RULE_OF_CODE.get(conflict.code), conflict.source
    by_level = (
        rule is Rule.DATA_ADDED
        and level != IsolationLevel.WRITE_SERIALIZABLE
        and _is_blind(conflict, winner_is_blind)
    )
    situation = Situation(
        rule=rule,
        subclass=Subclass(conflict.subclass) if conflict.subclass else None,
        current_operation=_operation(conflict.current_operation),
        winner_operation=_operation(conflict.winner_operation),
        can_retry=conflict.can_retry,
        is_stream=conflict.stream is not None,
        partitions=conflict.partitions,
        level_decides=by_level,
        reads_appended_rows=by_level,  # a message states no rows; the level is the known cause
        compares_rows=True if source is Source.THIS_ENGINE else _compares_rows(source),
        table=table,
    )
    return replace(conflict, remedies=remedies_of_report(conflict.code, situation))


def _is_blind(conflict: ReportedConflict, is_known: bool | None) -> bool:
    """Whether the winning commit is known to be a blind append; this engine's messages say so in words."""
    told_blind = conflict.winner.is_blind_append if conflict.winner else None
    return bool(is_known if told_blind is None else told_blind) or _IS_BLIND in conflict.excerpt


def _operation(name: str | None) -> str:
    return (name or "").upper()


def _compares_rows(source: Source) -> bool | None:
    return False if source in FILES_ALONE else None


def _report(plain: PlainText, signs: list[_Sign]) -> Report:
    first, flat = signs[0], plain.text
    later = (sign.start for sign in signs if sign.start > first.start and sign.kind != first.kind)
    end = next(later, first.start + _SPAN)
    message, around = flat[first.start : end], flat[max(0, first.start - 300) : end]
    conflict = _conflict(first.kind, message, around)
    return Report(
        conflict,
        more=_others(signs, first.kind, flat),
        marks=marks_of(plain, _places(signs, conflict, message)),
        format=_format(conflict, message),
    )


def _signs(flat: str) -> Iterator[_Sign]:
    for kind in KINDS:
        names = rf"\b{kind.code}\b" + (rf"|\b{kind.exception}\b" if kind.exception else "")
        sentences = "|".join(f"(?i:{sentence})" for sentence in kind.sentences)
        for match in re.finditer(f"({names})|{sentences}", flat):
            yield _Sign(match.start(), match.end(), kind, is_name=match[1] is not None)


def _places(signs: list[_Sign], reported: ReportedConflict, message: str) -> Iterator[FactPlace]:
    """Yield the positions of the first conflict's facts in the plain text."""
    first = signs[0]
    here = (sign for sign in signs if sign.kind == first.kind and sign.start - first.start < _SPAN)
    named = next((name_sign for name_sign in here if name_sign.is_name), first)
    yield FactPlace("exception", named.start, named.end)
    if reported.subclass:
        yield from place_of("subclass", rf"\b({reported.subclass})\b", message, first.start)
    yield from places(message, first.start)
    if reported.winner is not None:
        yield from commit_places(message, reported.winner, first.start)


def _conflict(kind: ConflictSigns, message: str, around: str) -> ReportedConflict:
    winner = find_commit(message)
    subclass = _subclass(kind, message)
    partitions, stream = find_partitions(message), stream_of(around)
    conflict = ReportedConflict(
        exception=kind.exception,
        code=kind.code,
        subclass=subclass,
        sqlstate="40000" if kind.code == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED" else "2D521",
        source=_source(around),
        meaning=" ".join(
            part for part in (kind.meaning, SUBCLASS_MEANINGS.get(subclass, "")) if part
        ),
        table=find_fact("table", message),
        winning_version=_find_winning_version(message, winner),
        winner_operation=_winner_operation(message, winner),
        winner_rows=find_number("winner_rows", message),
        current_operation=find_fact("current_operation", message),
        read_version=find_number("read_version", message),
        winner=winner,
        partitions=partitions,
        file=find_fact("file", message),
        stream=stream,
        can_retry=kind.can_retry,
        remedies=(),
        excerpt=message[:500].strip(),
    )
    return add_remedies(conflict)


def _subclass(kind: ConflictSigns, message: str) -> str:
    named = re.search(rf"{kind.code}\.([A-Z_]{{3,60}})", message)
    if named is not None and named[1] in SUBCLASS_MEANINGS:
        return named[1]
    return next((name for name in SUBCLASS_MEANINGS if re.search(rf"\b{name}\b", message)), "")


def _source(around: str) -> Source:
    return next((source for source, sign in SOURCE_SIGNS if sign.search(around)), Source.UNKNOWN)


def _format(reported: ReportedConflict, message: str) -> str:
    if reported.source in _ONE_FORMAT:
        return reported.source
    if reported.subclass:
        return f"{reported.source}, error class with sub-class"
    with_class = re.search(r"\bDELTA_[A-Z_]{3,60}\b", message) is not None
    return f"{reported.source}, {'with' if with_class else 'without'} an error class"


def _find_winning_version(message: str, winner: CommitText | None) -> int | None:
    if winner is not None and winner.version is not None:
        return winner.version
    return find_number("winning_version", message)


def _winner_operation(message: str, winner: CommitText | None) -> str | None:
    if winner is not None and winner.operation:
        return winner.operation
    return find_fact("winner_operation", message)


def _others(signs: list[_Sign], kind: ConflictSigns, flat: str) -> int:
    """Other conflicts in the text: other kinds, and other winners."""
    kinds = {other.kind.code for other in signs} - {kind.code}
    commits = set(re.findall(r'"txnId"\s*:\s*"([^"]{1,100})"', flat))
    return max(len(kinds), len(commits) - 1, 0)


def _iter_other_signs(flat: str, pasted: str) -> Iterator[str]:
    for words, sign in OTHER_SIGNS:
        if match := sign.search(flat) or sign.search(pasted):
            yield words.format(*match.groups())


def find_fact(fact: str, message: str) -> str | None:
    """Return a fact from a message, None if it is missing."""
    match = _search_fact(fact, message)
    return match[1].strip(" `") if match else None


def find_number(fact: str, message: str) -> int | None:
    """Return a number from a message, None if it is missing."""
    text = find_fact(fact, message)
    return int(text) if text else None


def find_partitions(message: str) -> tuple[str, ...]:
    """Return the partitions in a message, each as its writer wrote it."""
    text = find_fact("partitions", message) or ""
    bracketed = re.findall(r"\[([^\]]+)\]", text)
    if bracketed:
        return tuple(bracketed)
    return tuple(part.strip().rstrip(".") for part in text.split(",") if part.strip())


def places(message: str, offset: int) -> Iterator[FactPlace]:
    """Yield the positions of the facts; `offset` is the message's start in the text."""
    for fact in PATTERNS:
        if match := _search_fact(fact, message):
            text = match[1].strip("[] `")
            start = offset + match.start(1) + match[1].index(text)
            yield FactPlace(fact, start, start + len(text))


def stream_of(text: str) -> str | None:
    """Return the name of the failed streaming query, "" for a nameless one, None without one."""
    named = [match[1] for match in _STREAM.finditer(text)]
    return next((name for name in named if name), "") if named else None


def _search_fact(fact: str, message: str) -> re.Match[str] | None:
    matches = (re.search(pattern, message) for pattern in PATTERNS[fact])
    return next((match for match in matches if match), None)
