"""A pasted text made plain, with a map of its positions back to the original.

Terminals add colours, loggers a prefix to every line, JSON and HTML their escapes, chats curly
quotes. The result is one line with the message as its writer wrote it.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

_COLOUR = re.compile(
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
    (_COLOUR, _nothing),
    (_UNSEEN, _nothing),
    (_TAG, lambda _: " "),
    (_ENTITY, lambda match: html.unescape(match[0].replace("&amp;", "&", 1))),
    (_CODED, lambda match: chr(int(match[1], 16))),
)
