"""LIKE in time linear in the text, regardless of the pattern.

Spark matches LIKE with java.util.regex, which backtracks over all ways to split a text among the
`%` of a pattern: a few of them keep a core busy for hours. Here each piece between two `%` matches
at its first occurrence, which finds a match if there is one, and an atomic group prevents
backtracking. Arrow's RE2 does not backtrack and gets the pattern unchanged.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from engine.errors import ExpressionError
from engine.expressions.tree import Call, Expression, Literal
from engine.schema.types import BOOLEAN, INTEGER, STRING

LIKE = frozenset({"like", "ilike"})
MAX_WILDCARDS = 500
"""Limit per pattern: java.util.regex needs a stack frame for each wildcard."""

_ESCAPE = "\\"
_BEGIN, _NEXT_PIECE, _END = r"(?s)\A(?>", ")(?>.*?", r"\z)"
_QUOTE_ONE = r"\\Q$0\\E"


@dataclass(frozen=True, slots=True)
class _Token:
    """A literal character of a pattern, or a wildcard."""

    character: str
    is_wildcard: bool = False


class MisplacedEscapeError(ValueError):
    """The escape character precedes something other than `%`, `_` and itself."""


def check_like(name: str, arguments: tuple[Expression, ...], position: int | None) -> None:
    """Check that Spark can match the pattern.

    Raises:
        ExpressionError: too many wildcards, a misplaced escape, a nested nonliteral pattern.
    """
    pattern, escape = arguments[1], _escape_of(arguments)
    if _makes_patterns(pattern):
        what = f"The pattern of {name.upper()} contains another pattern that is not a literal."
        raise ExpressionError(what, "Write one of the patterns as a literal.", position=position)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return
    try:
        count = sum(
            token.is_wildcard for token in _tokens(_lower_pattern(name, pattern.value), escape)
        )
    except MisplacedEscapeError:
        what = (
            f"The pattern of {name.upper()} has {escape!r} before a character other than %, _ "
            f"and {escape!r}."
        )
        remedy = "Double the escape character to match it, or choose another one with ESCAPE."
        raise ExpressionError(what, remedy, position=position) from None
    if count > MAX_WILDCARDS:
        what = f"The pattern of {name.upper()} has {count} wildcards: {MAX_WILDCARDS} is the limit."
        raise ExpressionError(what, "Use fewer, or several patterns with AND.", position=position)


def re2_pattern(pattern: str, escape: str = _ESCAPE) -> str:
    """Return the RE2 pattern that matches whole texts as LIKE does.

    Raises:
        MisplacedEscapeError: it is not a valid LIKE pattern.
    """
    wildcards = {"%": "(?s:.*)", "_": "(?s:.)"}
    return rf"\A{_translate_pattern(pattern, escape, wildcards)}\z"


def translate_like(call: Call) -> Call:
    """Turn LIKE into RLIKE, unless Spark compares bytes for its pattern or the pattern is null."""
    value, pattern = call.arguments[:2]
    escape = _escape_of(call.arguments)
    if isinstance(pattern, Literal) and (
        pattern.value is None or _is_simple(str(pattern.value), escape)
    ):
        return call
    if call.function == "ilike":
        value = Call("lower", (value,), STRING)
    return Call("rlike", (value, _java_pattern(call.function, pattern, escape)), BOOLEAN)


def _is_simple(pattern: str, escape: str) -> bool:
    """Return whether a pattern has only `%` at its ends, or one `%` within it."""
    pieces = pattern.split("%")
    outer_only = len(pieces) == 3 and not pieces[0] and not pieces[2] and bool(pieces[1])
    return "_" not in pattern and escape not in pattern and (len(pieces) <= 2 or outer_only)


def _java_pattern(name: str, pattern: Expression, escape: str) -> Expression:
    if isinstance(pattern, Literal) and (name == "like" or str(pattern.value).isascii()):
        wildcards = {"%": _NEXT_PIECE, "_": "."}
        text = _translate_pattern(_lower_pattern(name, str(pattern.value)), escape, wildcards)
        return Literal(f"{_BEGIN}{text}{_END}", STRING)
    if name == "ilike":
        pattern = Call("lower", (pattern,), STRING)
    return _java_pattern_by_spark(pattern, escape)


def _java_pattern_by_spark(pattern: Expression, escape: str) -> Expression:
    r"""Build the same as `_java_pattern`, for patterns only Spark knows.

    Each literal character with a meaning in java.util.regex goes between `\Q` and `\E`; a wildcard
    right after `\Q` is literal.
    """
    escaped = f"{re.escape(escape)}(%|_|{re.escape(escape)})"
    backslash = "" if escape == _ESCAPE else r"|(\\)"
    text = _regex_replace(pattern, escaped + backslash, rf"\\Q$1{'$2' if backslash else ''}\\E")
    text = _regex_replace(text, r"(?<!\\Q)[.*+?^$|(){}\[\]]", _QUOTE_ONE)
    text = _regex_replace(text, r"(?<!\\Q)_", ".")
    text = _regex_replace(text, r"(?<!\\Q)%", _NEXT_PIECE)
    whole = Call("concat", (_text(_BEGIN), text, _text(_END)), STRING)
    bare = _regex_replace(pattern, escaped, "")
    stray = Call("instr", (bare, _text(escape)), INTEGER)
    wildcards = Call("length", (_regex_replace(bare, "[^%_]", ""),), INTEGER)
    too_many = f"A LIKE pattern has more than {MAX_WILDCARDS} wildcards."
    misplaced = f"A LIKE pattern has {escape!r} before a character other than %, _ and {escape!r}."
    refusals = (
        (_more_than(wildcards, MAX_WILDCARDS), _error(too_many)),
        (_more_than(stray, 0), _error(misplaced)),
    )
    return Call("case", (*chain.from_iterable(refusals), whole), STRING)


def _error(message: str) -> Expression:
    return Call("cast", (Call("raise_error", (_text(message),), STRING),), STRING)


def _more_than(value: Expression, limit: int) -> Expression:
    return Call(">", (value, Literal(limit, INTEGER)), BOOLEAN)


def _regex_replace(value: Expression, regex: str, replacement: str) -> Expression:
    return Call("regexp_replace", (value, _text(regex), _text(replacement)), STRING)


def _text(text: str) -> Literal:
    return Literal(text, STRING)


def _translate_pattern(pattern: str, escape: str, wildcards: dict[str, str]) -> str:
    return "".join(
        wildcards[token.character] if token.is_wildcard else re.escape(token.character)
        for token in _tokens(pattern, escape)
    )


def _tokens(pattern: str, escape: str) -> Iterator[_Token]:
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in {"%", "_", escape}:
                raise MisplacedEscapeError
            yield _Token(following)
        else:
            yield _Token(character, is_wildcard=character in {"%", "_"})


def _lower_pattern(name: str, pattern: str) -> str:
    """Convert an ILIKE pattern to lower case; beyond ASCII only Spark can do it."""
    return pattern.lower() if name == "ilike" and pattern.isascii() else pattern


def _escape_of(arguments: tuple[Expression, ...]) -> str:
    escape = arguments[2] if len(arguments) > 2 else None
    return str(escape.value) if isinstance(escape, Literal) else _ESCAPE


def _makes_patterns(pattern: Expression) -> bool:
    """Return whether the pattern depends on another nonliteral pattern, which would be repeated."""
    if not isinstance(pattern, Call):
        return False
    return (pattern.function in LIKE and not isinstance(pattern.arguments[1], Literal)) or any(
        _makes_patterns(argument) for argument in pattern.arguments
    )
