"""Regular expressions limited to those java.util.regex matches in bounded time and stack.

Java backtracks. A pattern is accepted if this cannot lead to many attempts: only single characters
are repeated, the part after a repetition begins with none of them (Java then gets a possessive
repetition, which never backtracks), and little ambiguity remains. Texts are limited too, so no row
takes longer than a second. The functions that take a pattern are checked, and rewritten for Spark,
here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.errors import ExpressionError
from engine.expressions.tree import Call, Expression, Literal, walk
from engine.schema.types import BOOLEAN, INTEGER, STRING

MAX_PATTERN = 500
MAX_TEXT = 10_000
"""Limit of a matched text's length: Spark refuses a longer one."""
_MAX_COUNT = 1000
_MAX_WAYS = 64
_OTHER, _LINE_END = (
    128,
    129,
)  # stand for all characters beyond ASCII, and for line endings among them
_BEYOND = frozenset((_OTHER, _LINE_END))
_ALL = frozenset(range(_LINE_END + 1))
_DIGITS = frozenset(range(48, 58))
_WORDS = frozenset((*_DIGITS, *range(65, 91), *range(97, 123), 95))
_BLANKS = frozenset(map(ord, " \t\n\x0b\f\r"))
_LINE_ENDS = frozenset((10, 13, _LINE_END))
_CLASSES = {
    "d": _DIGITS,
    "D": _ALL - _DIGITS,
    "w": _WORDS,
    "W": _ALL - _WORDS,
    "s": _BLANKS,
    "S": _ALL - _BLANKS,
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_REMEDY = "Use a simpler pattern, LIKE, or split_part."
Characters = frozenset[int]

REGEX = frozenset(
    {"regexp_like", "regexp_replace", "regexp_extract", "regexp_substr", "regexp_count"}
)
_MAX_REPLACEMENT = 100
_REFERENCE = re.compile(r"\\|\$(?:(\d+))?")


@dataclass(frozen=True, slots=True)
class _One:
    """One character of a set, `least` to `most` times (None: any number); `lazy` takes few."""

    text: str
    of: Characters
    least: int = 1
    most: int | None = 1
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class _Edge:
    """A position between characters; `before` are the characters that may follow."""

    text: str
    before: Characters


@dataclass(frozen=True, slots=True)
class _PatternGroup:
    """One of several sequences, repeated `times` times, or omitted if `optional`."""

    head: str
    options: "tuple[tuple[_Part, ...], ...]"
    times: int = 1
    optional: bool = False


_Part = _One | _Edge | _PatternGroup


@dataclass(frozen=True, slots=True)
class Regex:
    """An accepted pattern: its form for Java, and its number of groups."""

    java: str
    groups: int


def limit_pattern(pattern: str, position: int | None = None) -> Regex:
    """Convert a pattern to one Java matches in bounded time.

    Raises:
        ExpressionError: it has an unsupported construct, or might take long.
    """
    try:
        if len(pattern) > MAX_PATTERN:
            msg = f"it has {len(pattern)} characters, and {MAX_PATTERN} is the limit"
            raise ValueError(msg)
        reader = _PatternReader(pattern)
        options = reader.options()
        if not reader.at_end:
            msg = f"{reader.peek()!r} closes nothing"
            raise ValueError(msg)
        writer = _Writer()
        text = "|".join(writer.sequence(option, None) for option in options)
        writer.check(options)
    except ValueError as why:
        what = f"The pattern {pattern[:60]!r} is not supported: {why}."
        raise ExpressionError(what, _REMEDY, position=position) from None
    return Regex(reader.flags + text, reader.groups)


class _PatternReader:
    """From text to parts."""

    def __init__(self, pattern: str) -> None:
        self.flags = next((f for f in ("(?is)", "(?i)", "(?s)") if pattern.startswith(f)), "")
        self._text, self._at, self.groups, self._depth = pattern, len(self.flags), 0, 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _next(self) -> str:
        if self.at_end:
            msg = "it ends too early"
            raise ValueError(msg)
        self._at += 1
        return self._text[self._at - 1]

    def options(self) -> tuple[tuple[_Part, ...], ...]:
        options = [self._sequence()]
        while self.peek() == "|":
            self._at += 1
            options.append(self._sequence())
        return tuple(options)

    def _sequence(self) -> tuple[_Part, ...]:
        parts: list[_Part] = []
        while not self.at_end and self.peek() not in {"|", ")"}:
            parts.append(self._apply_repetition(self._part()))
        return tuple(parts)

    def _part(self) -> _Part:  # noqa: PLR0911 - one case per character
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                line_ends: Characters = frozenset() if "s" in self.flags else _LINE_ENDS
                return _One(".", _ALL - line_ends)
            case "^":
                return _Edge("^", _ALL)
            case "$":
                return _Edge("$", _LINE_ENDS)
            case "\\":
                return self._escape()
            case _ if character in _SPECIAL:
                msg = f"{character!r} has nothing to repeat"
                raise ValueError(msg)
            case _:
                return _One(character, self._add_other_case(frozenset((_code(character),))))

    def _group(self) -> _PatternGroup:
        head = "("
        if self.peek() == "?":
            if self.peek(2) != "?:":
                msg = "a group cannot begin with (? except (?:"
                raise ValueError(msg)
            self._at += 2
            head = "(?:"
        else:
            self.groups += 1
        self._depth += 1
        if self._depth > 10:
            msg = "its groups are nested deeper than 10"
            raise ValueError(msg)
        options = self.options()
        self._depth -= 1
        if self.peek() != ")":
            msg = "a group is not closed"
            raise ValueError(msg)
        self._at += 1
        return _PatternGroup(head, options)

    def _escape(self) -> _Part:
        character = self._next()
        if character in _CLASSES:
            return _One(f"\\{character}", _CLASSES[character])
        if character == "b":
            return _Edge("\\b", _ALL)
        code, text = self._read_escape(character)
        return _One(text, self._add_other_case(frozenset((code,))))

    def _read_escape(self, character: str) -> tuple[int, str]:
        if character in _CONTROLS:
            return ord(_CONTROLS[character]), f"\\{character}"
        if character.isascii() and not character.isalnum():
            return ord(character), f"\\{character}"
        msg = f"\\{character} is not supported"
        raise ValueError(msg)

    def _set(self) -> _One:
        start, negated = self._at - 1, self.peek() == "^"
        self._at += negated
        members: set[int] = set()
        while self.peek() != "]":
            first, is_class = self._member()
            members |= first
            if self.peek() == "-" and self.peek(2) != "-]" and not is_class:
                self._at += 1
                last, is_class = self._member()
                low, high = min(first), min(last)
                if is_class or low > high or max(low, high) >= _OTHER:
                    msg = "a range in [] is not ASCII"
                    raise ValueError(msg)
                members |= set(range(low, high + 1))
        self._at += 1
        if self._at - start == 2 + negated:
            msg = "[] is empty"
            raise ValueError(msg)
        taken = self._add_other_case(frozenset(members))
        if negated:
            outside = taken - _BEYOND
            taken = _ALL - outside
        return _One(self._text[start : self._at], taken)

    def _member(self) -> tuple[Characters, bool]:
        character = self._next()
        if character == "\\":
            following = self._next()
            if following in _CLASSES:
                return _CLASSES[following], True
            return frozenset((self._read_escape(following)[0],)), False
        if character == "[" or (character == "&" and self.peek() == "&"):
            msg = "sets inside [] are not supported"
            raise ValueError(msg)
        return frozenset((_code(character),)), False

    def _add_other_case(self, characters: Characters) -> Characters:
        if "i" not in self.flags:
            return characters
        texts = [chr(code) for code in characters if code < _OTHER]
        both = {ord(letter) for text in texts for letter in (text.lower(), text.upper())}
        return characters | both

    def _apply_repetition(self, part: _Part) -> _Part:
        times = self._times()
        if times is None:
            return part
        least, most = times
        lazy = self.peek() == "?"
        self._at += lazy
        if self.peek() in {"*", "+", "?", "{"} or isinstance(part, _Edge):
            msg = "a repetition or an anchor is repeated"
            raise ValueError(msg)
        if isinstance(part, _One):
            return _One(part.text, part.of, least, most, lazy)
        if lazy or (least, most) not in {(0, 1), (least, least)} or least > 20:
            msg = "a group can only be repeated with ? or with {n} up to 20 times"
            raise ValueError(msg)
        return _PatternGroup(part.head, part.options, max(least, 1), least == 0)

    def _times(self) -> tuple[int, int | None] | None:
        sign = self.peek()
        if sign in {"*", "+", "?"} and sign:
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        if sign != "{":
            return None
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : max(end, 0)].partition(",")
        self._at = end + 1
        if end < 0 or not _is_count(low) or (high and not _is_count(high)):
            msg = "{ is not followed by a number"
            raise ValueError(msg)
        most = int(low) if not comma else int(high) if high else None
        if max(int(low), most or 0) > _MAX_COUNT or (most is not None and most < int(low)):
            msg = f"a repetition is above {_MAX_COUNT} times, or its maximum is below its minimum"
            raise ValueError(msg)
        return int(low), most


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def _code(character: str) -> int:
    return _LINE_END if character in "\x85\u2028\u2029" else min(ord(character), _OTHER)


class _Writer:
    """Renders parts as Java's text, and counts the possible attempts."""

    def __init__(self) -> None:
        self._ways, self._open, self._scans = 1, 0, 0

    def check(self, options: Sequence[Sequence[_Part]]) -> None:
        """Refuse patterns that might take long.

        Raises:
            ValueError: it might.
        """
        anchored = all(option and option[0] == _Edge("^", _ALL) for option in options)
        steps = (not anchored) + self._open + (self._scans > 0)
        if steps > 2 or self._open > 1 or self._ways > _MAX_WAYS:
            msg = "it can match a string in many ways"
            hint = (
                ""
                if anchored
                else "; begin it with ^, or end each repetition at a different character"
            )
            raise ValueError(msg + hint)

    def sequence(self, parts: Sequence[_Part], following: Characters | None) -> str:
        """Render parts; `following` are the characters that may come after, None for the end."""
        rests: list[Characters | None] = []
        for part in reversed(parts):
            rests.append(following)
            following = _first((part,), following)
        pairs = zip(parts, reversed(rests), strict=True)
        return "".join(self._render_part(part, rest) for part, rest in pairs)

    def _render_part(self, part: _Part, following: Characters | None) -> str:
        if isinstance(part, _Edge):
            return part.text
        if isinstance(part, _One):
            return self._one(part, following)
        firsts = [_first(option, following) for option in part.options]
        if part.optional:
            firsts.append(following)
        overlaps = any(
            one is None or other is None or one & other
            for at, one in enumerate(firsts)
            for other in firsts[at + 1 :]
        )
        before = self._ways, self._open
        inner = "|".join(self.sequence(option, _again(part, following)) for option in part.options)
        nested = any(_repeats_groups(option) for option in part.options)
        if part.times > 1 and (nested or overlaps or before != (self._ways, self._open)):
            msg = "a repeated part can match in several ways"
            raise ValueError(msg)
        if overlaps:
            self._ways *= len(firsts)
        suffix = "?" if part.optional else f"{{{part.times}}}" if part.times > 1 else ""
        return f"{part.head}{inner}){suffix}"

    def _one(self, part: _One, following: Characters | None) -> str:
        if (part.least, part.most) == (1, 1):
            return part.text
        times = f"{{{part.least},{'' if part.most is None else part.most}}}"
        if part.least == part.most:
            return f"{part.text}{{{part.least}}}"
        if not part.lazy and (following is None or not following & part.of):
            self._scans += part.most != 1 and following is not None
            return f"{part.text}{times}+"
        if part.most == 1:
            self._ways *= 2
        else:
            self._open += 1
        return f"{part.text}{times}{'?' if part.lazy else ''}"


def _repeats_groups(parts: Sequence[_Part]) -> bool:
    return any(
        isinstance(part, _PatternGroup)
        and (part.times > 1 or any(map(_repeats_groups, part.options)))
        for part in parts
    )


def _again(group: _PatternGroup, following: Characters | None) -> Characters | None:
    """Return the characters possible after one repetition of a group: another one, or the rest."""
    if group.times == 1:
        return following
    turns = [_first(option, following) for option in group.options]
    return None if None in turns else frozenset().union(*turns, following or _ALL)  # type: ignore[arg-type]


def _first(  # noqa: PLR0911 - one case per part
    parts: Sequence[_Part], following: Characters | None
) -> Characters | None:
    """Return the characters parts may begin with; None if they may be empty at the end."""
    for part in parts:
        if isinstance(part, _Edge):
            return part.before
        if isinstance(part, _One):
            if part.least:
                return part.of
            rest = _first(parts[1:], following)
            return None if rest is None else part.of | rest
        rest = _first(parts[1:], following)
        firsts = [_first(option, rest) for option in part.options]
        if part.optional:
            firsts.append(rest)
        if None in firsts:
            return None
        return frozenset().union(*firsts)  # type: ignore[arg-type]
    return following


def check_regex(name: str, arguments: Sequence[Expression], position: int | None) -> None:
    """Refuse patterns that may take long, and references to missing groups.

    Raises:
        ExpressionError: names the fault.
    """
    value, pattern = arguments[:2]
    if any(isinstance(node, Call) and node.function in REGEX for node in walk(value)):
        what = f"{name} contains another regular expression."
        raise ExpressionError(what, "Compute the inner one first.", position=position)
    if not isinstance(pattern, Literal):
        what = f"The pattern of {name} is not a literal."
        raise ExpressionError(what, "Write it out, or use LIKE.", position=position)
    if not isinstance(pattern.value, str):
        return
    groups = limit_pattern(pattern.value, position).groups
    last = arguments[2] if len(arguments) > 2 else None
    if name == "regexp_extract":
        _check_group(last, groups, position)
    if name == "regexp_replace":
        _check_replacement(last, groups, position)


def _check_group(group: Expression | None, groups: int, position: int | None) -> None:
    number = group.value if isinstance(group, Literal) else None if group else 1
    if not isinstance(number, int) or not 0 <= number <= groups:
        what = f"regexp_extract needs the number of a group, as a literal from 0 to {groups}."
        raise ExpressionError(what, "Use 0 for the whole match.", position=position)


def _check_replacement(text: Expression | None, groups: int, position: int | None) -> None:
    if not isinstance(text, Literal) or not isinstance(text.value, str):
        what = "The replacement of regexp_replace is not a string literal."
        raise ExpressionError(what, "Write a literal.", position=position)
    if len(text.value) > _MAX_REPLACEMENT:
        what = f"The replacement of regexp_replace is longer than {_MAX_REPLACEMENT} characters."
        raise ExpressionError(what, "Use a shorter one.", position=position)
    for reference in _REFERENCE.finditer(text.value):
        number = reference[1]
        if number is None or len(number) > 1 or int(number) > groups:
            what = (
                f"{reference[0]!r} in the replacement of regexp_replace is not a group of its "
                "pattern."
            )
            remedy = f"Use $0 to ${groups}, one digit each, and no backslashes."
            raise ExpressionError(what, remedy, position=position)


def regex_for_spark(call: Call) -> Call:
    """Rewrite the call with bounded texts and a pattern without backtracking."""
    value, pattern, *rest = call.arguments
    if _is_guarded(value) or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return call
    safe = Literal(limit_pattern(pattern.value).java, STRING)
    guarded = replace(call, arguments=(_guard_length(value), safe, *rest))
    return replace(guarded, function="rlike") if call.function == "regexp_like" else guarded


def _guard_length(value: Expression) -> Expression:
    message = f"A string to match with a regular expression has more than {MAX_TEXT} characters."
    error = Call("raise_error", (Literal(message, STRING),), STRING)
    length = Call("length", (value,), INTEGER)
    is_long = Call(">", (length, Literal(MAX_TEXT, INTEGER)), BOOLEAN)
    return Call("case", (is_long, Call("cast", (error,), STRING), value), STRING)


def _is_guarded(value: Expression) -> bool:
    return isinstance(value, Call) and any(
        isinstance(node, Call) and node.function == "raise_error" for node in walk(value)
    )
