"""A pasted text made plain, the commit inside it, and the places of its facts in the original.

Terminals add colors, loggers a prefix to every line, JSON and HTML their escapes, chats curly
quotes. The result is one line with the message as its writer wrote it, and a map of its positions,
so that a reader can check the parsing.

A message may end in the winning commit's commitInfo: "Conflicting commit: {…}", whole or cut off.
Delta writes operationParameters as raw text into it, so it is often not JSON (`{"mode":Append}`):
text that cannot be decoded is read field by field.
"""

import html
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_COLOR = re.compile(
    r"(?:\x1b|\\{1,4}(?:u001b|x1b|033|e)|\^\[)\[[0-9;?]{0,20}[A-Za-z]|\[(?:\d{1,3};){0,4}\d{1,3}m",
    re.IGNORECASE,
)
_ENTITY = re.compile(
    r"&(?:amp;)?(?:quot|apos|lt|gt|nbsp|#(?:10|13|34|39|60|61|62)|#x(?:0?a|0?d|22|27|3[c-e]));",
    re.I,
)
_TAG = re.compile(
    r"<(?:/?(?:a|b|br|code|div|li|p|pre|span|td|tr|tt)(?: [^<>]{0,300})?/?)>", re.IGNORECASE
)
_TYPESET = str.maketrans(
    {
        curly: straight
        for straight, all_curly in (('"', "\u201c\u201d\u201e"), ("'", "\u2018\u2019"))
        for curly in all_curly
    }
)
_UNSEEN = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")
_CODED = re.compile(r"\\{1,8}u00(2[0-9a-f]|3[0-9a-f]|5[bd])", re.IGNORECASE)
_QUOTED = re.compile(r'onflicting commit:(?:\\{1,8}[nrt]|\s){0,9}\{(\\{1,7})"')  # levels: 1, 3, 7
_DOUBLED = re.compile(r'onflicting commit:[\s"]{0,9}\{""')  # as a cell of a CSV file
_PAIR = re.compile(r'""')
_DOCKER = re.compile(
    r'(?:\\n)?","stream":"std(?:err|out)"(?:,"time":"[^"\n]{1,60}")?\}\s{1,9}\{"log":"'
)
_ESCAPED = re.compile(r'\\(["\\/])')
_SPACE = r"(?:\\{1,8}[nrt]|[\s\u2028])"
_MOMENT = (
    r"(?:\d{2,4}[-/]\d{2}[-/]\d{2,4}[T, ]{1,2})?\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
    r"(?:Z| ?UTC|[+-]\d{2}:?\d{2})?"
)
_LOGGED = (  # loggers' text between the time and the message
    r"(?:[ \t]{0,8}(?:\[(?!DELTA_)[^\]=\n]{1,80}\]|\{[\w./:-]{1,80}\}|std(?:err|out)\b|[FP](?= )"
    r"|(?:INFO|WARN|WARNING|ERROR|FATAL|DEBUG|TRACE)\b"
    r"(?:[ \t]{1,2}(?![\w.$]{0,80}(?:Exception|Error)\b)[\w.$]{1,80}[ \t]{0,2}[-:](?=[ \t]))?"
    r"|[-|:])){0,8}"
)
_SYSLOG = (
    r"[A-Z][a-z]{2} {1,2}\d{1,2} \d{2}:\d{2}:\d{2} [\w.-]{1,80} [\w./-]{1,80}(?:\[\d{1,9}\])?: "
)
_PREFIX = (
    rf"(?:[>#*][ \t]|//[ \t]|E[ \t]{{3,7}}|{_SYSLOG})?"
    r"(?:[\w.-]{1,60}[ \t]{0,9}\|[ \t]|\|[ \t])?"
    rf"(?:\[?{_MOMENT}\]?{_LOGGED})?"
)
_BREAK = re.compile(rf"{_SPACE}*(?:\n|\r|\\{{1,8}}[nr]){_SPACE}*{_PREFIX}{_SPACE}*|{_SPACE}+")
_Put = Callable[[re.Match[str]], str]

_START = re.compile(r"conflicting commit:\s*(?=\{)", re.IGNORECASE)
_MAX_CHARS = 100_000

_COMMIT = re.compile(r"onflicting commit:\s{0,9}\{")


@dataclass(frozen=True, slots=True)
class _ReplacementRound:
    """One round of replacements: the starts of pieces after it and before it."""

    starts: list[int]
    origins: list[int]

    def back(self, place: int) -> int:
        at = bisect_right(self.starts, place) - 1
        there = self.origins[at] + place - self.starts[at]
        return min(there, self.origins[at + 1]) if at + 1 < len(self.origins) else there


@dataclass(frozen=True, slots=True)
class PlainText:
    """Text in one line, and its derivation from the pasted one."""

    text: str
    steps: tuple[_ReplacementRound, ...] = ()

    def origin(self, place: int) -> int:
        """Return the position in the pasted text of a position here."""
        for step in reversed(self.steps):
            place = step.back(place)
        return place

    def replace_matches(self, pattern: re.Pattern[str], put: _Put) -> "PlainText":
        """Replace every match; return itself if nothing matches."""
        pieces: list[str] = []
        starts, origins, length, at = [0], [0], 0, 0
        for match in pattern.finditer(self.text):
            new = put(match)
            pieces += (self.text[at : match.start()], new)
            length += match.start() - at
            starts += (length, length + len(new))
            origins += (match.start(), match.end())
            length, at = length + len(new), match.end()
        if not pieces:
            return self
        return PlainText(
            "".join([*pieces, self.text[at:]]), (*self.steps, _ReplacementRound(starts, origins))
        )


def plain_text(pasted: str) -> PlainText:
    """Return the pasted text in one line, without additions made on its way."""
    plain = PlainText(pasted.translate(_TYPESET))
    for pattern, put in _ROUNDS:
        plain = plain.replace_matches(pattern, put)
    if _DOUBLED.search(plain.text):
        plain = plain.replace_matches(_PAIR, lambda _: '"')
    quoted = _QUOTED.search(plain.text)
    for _ in range(len(quoted[1]).bit_length() if quoted else 0):
        plain = plain.replace_matches(_ESCAPED, lambda match: match[1])
    return plain.replace_matches(_BREAK, lambda _: " ")


def _nothing(_: re.Match[str]) -> str:
    return ""


_ROUNDS: tuple[tuple[re.Pattern[str], _Put], ...] = (
    (_DOCKER, lambda _: "\n"),
    (_COLOR, _nothing),
    (_UNSEEN, _nothing),
    (_TAG, lambda _: " "),
    (_ENTITY, lambda match: html.unescape(match[0].replace("&amp;", "&", 1))),
    (_CODED, lambda match: chr(int(match[1], 16))),
)


@dataclass(frozen=True, slots=True)
class CommitText:
    """A message's facts of the winning commit. None: not stated. `is_whole`: it was not cut."""

    version: int | None = None
    timestamp_ms: int | None = None
    operation: str | None = None
    user: str | None = None
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine: str | None = None
    txn_id: str | None = None
    predicate: str | None = None
    is_whole: bool = True


def find_commit(text: str) -> CommitText | None:
    """Return the first commit in a message's conflicts."""
    start = _START.search(text)
    if start is None:
        return None
    body, is_whole = _take_braced_text(text[start.end() : start.end() + _MAX_CHARS])
    parameters = _parameters_of(body)
    rest = body.replace(parameters, "{}", 1) if parameters else body
    fields = _decode_object(body) or _Loose(rest, parameters)
    return CommitText(
        version=_integer(fields.get("version")),
        timestamp_ms=_integer(fields.get("timestamp")),
        operation=_text(fields.get("operation")),
        user=_text(fields.get("userName")),
        read_version=_integer(fields.get("readVersion")),
        isolation_level=_text(fields.get("isolationLevel")),
        is_blind_append=_truth(fields.get("isBlindAppend")),
        engine=_text(fields.get("engineInfo")),
        txn_id=_text(fields.get("txnId")),
        predicate=_predicate(fields, parameters),
        is_whole=is_whole,
    )


class _Loose(dict[str, Any]):
    """Fields of almost-JSON text, found by name, without those of its parameters."""

    def __init__(self, text: str, parameters: str) -> None:
        matches = re.finditer(r'"(\w{1,40})"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,{}\[\]"]+)', text)
        pairs = [(match[1], match[2]) for match in matches]
        super().__init__({name: value.strip('"') for name, value in reversed(pairs)})
        self.parameters = parameters


def _take_braced_text(text: str) -> tuple[str, bool]:
    """Return the text up to the brace that closes its first one; otherwise all of it, and False."""
    depth, quoted, escaped = 0, False, False
    for place, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return text[: place + 1], True
    return text, False


def _parameters_of(body: str) -> str:
    start = re.search(r'"operationParameters"\s*:\s*(?=\{)', body)
    return _take_braced_text(body[start.end() :])[0] if start else ""


def _decode_object(body: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _predicate(fields: Mapping[str, Any], parameters: str) -> str | None:
    recorded = fields.get("operationParameters")
    if isinstance(recorded, dict):
        return _text(recorded.get("predicate"))
    match = re.search(r'"predicate"\s*:\s*(.{1,2000}?)(?=,"\w+"\s*:|\}$|$)', parameters, re.DOTALL)
    return _text(match[1]) if match else None


def _text(value: Any) -> str | None:  # noqa: ANN401 - of JSON
    text = value if isinstance(value, str) else json.dumps(value) if value is not None else ""
    text = text.strip().strip('"')
    return text if text not in ("", "[]", "null") else None


def _integer(value: Any) -> int | None:  # noqa: ANN401
    text = str(value)
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def _truth(value: Any) -> bool | None:  # noqa: ANN401
    return {"true": True, "false": False}.get(str(value).lower())


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
