"""The lexer: sqlglot splits the text into tokens, Spark's rules define their meaning.

Positions are offsets into the text. Constructs Spark's lexer reads differently (placeholders,
templates, hints) become a symbol unknown to every grammar here.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from engine.errors import ExpressionError, StatementError

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)|''|\"\"", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_]+\Z")
_NUMERAL = re.compile(r"[0-9]+(?:[LSY]|(?:E[0-9]+)?(?:D|F|BD)?)\Z", re.IGNORECASE)
_QUOTED = re.compile(r"`(?:[^`]|``)+`\Z", re.DOTALL)
_SEPARATORS = frozenset("(),.")
_NUMBER = re.compile(r"\.?[0-9]")


class _Tokenizer(Databricks.Tokenizer):
    """Databricks' quotes, comments and symbols, without its words: each word is one token here.

    Old versions of sqlglot split a name at a doubled backtick, and a hex string after its X.
    """

    IDENTIFIER_ESCAPES: ClassVar[list[str]] = ["`"]
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("X'", "'"), ("x'", "'")]

    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        text: kind
        for text, kind in Databricks.Tokenizer.KEYWORDS.items()
        if not any(character.isalnum() for character in text)
    }


@dataclass(frozen=True, slots=True)
class Token:
    """One word, quoted name, string, hex string, number or symbol of the text.

    `value` is the meaning: upper case for words, unescaped for strings and quoted names.
    `end` is the offset after the last character.
    """

    kind: str
    value: str
    text: str
    position: int
    end: int
    after_comment: bool = False


def tokenize(text: str, *, error: type[StatementError] = ExpressionError) -> list[Token]:
    """Split a text into tokens; comments are omitted but marked on the adjacent token.

    Raises:
        ExpressionError: (or `error`) unbalanced quotes, characters that begin no token.
    """
    if text.isascii() and text.isdigit():  # most literals in VALUES
        return [Token("number", text, text, 0, len(text))]
    try:
        sqlglot_tokens = _Tokenizer(dialect="databricks").tokenize(text)
    except (SqlglotError, ValueError, IndexError) as cause:
        what = "The text cannot be parsed, probably because a quote or comment is not closed."
        remedy = "Close it. Double a quote inside a string: 'O''Brien'."
        raise error(what, remedy, position=len(text)) from cause
    tokens: list[Token] = []
    for sqlglot_token in sqlglot_tokens:
        token = _token(sqlglot_token, text, error)
        if tokens and _continues(tokens[-1], token):
            token = _join_strings(tokens.pop(), token)
        elif _begins_a_number(tokens, token):
            dot = tokens.pop()
            value, commented = f".{token.value}", dot.after_comment or token.after_comment
            source = text[dot.position : token.end]
            token = Token("number", value, source, dot.position, token.end, commented)
        tokens.append(token)
    return tokens


def _continues(before: Token, token: Token) -> bool:
    """Return whether a doubled quote, which sqlglot splits, joins the two tokens."""
    return (
        before.kind == token.kind == "string"
        and before.end == token.position
        and before.text[0] == token.text[0]
    )


def _begins_a_number(tokens: list[Token], token: Token) -> bool:
    """Return whether the dot belongs to the digits (`.5`), not between a struct and its field."""
    if token.kind != "number" or not tokens or tokens[-1].text != ".":
        return False
    dot, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    after_a_value = (
        before is not None
        and before.end == dot.position
        and (before.kind != "symbol" or before.text in {")", "]"})
    )
    return dot.end == token.position and not after_a_value


def _join_strings(before: Token, token: Token) -> Token:
    value, text = before.value + token.text[0] + token.value, before.text + token.text
    commented = before.after_comment or token.after_comment
    return Token("string", value, text, before.position, token.end, commented)


def _token(sqlglot_token: Any, text: str, error: type[StatementError]) -> Token:  # noqa: ANN401 - sqlglot's
    start, end = int(sqlglot_token.start), int(sqlglot_token.end) + 1
    source = text[start:end]
    kind, value = _read(sqlglot_token.token_type, source, start, error)
    return Token(kind, value, source, start, end, bool(sqlglot_token.comments))


def _read(  # noqa: PLR0911
    token_type: TokenType, source: str, position: int, error: type[StatementError]
) -> tuple[str, str]:
    if source in _SEPARATORS:
        return "symbol", source
    if token_type == TokenType.STRING and source[:1] in {"'", '"'}:
        return "string", _unescape(source, position, error)
    if token_type == TokenType.RAW_STRING and source[:1] in {"r", "R"} and len(source) > 2:
        return "string", source[2:-1]
    if token_type == TokenType.HEX_STRING and source[:1] in {"x", "X"}:
        return "hex", source[2:-1]
    if _WORD.match(source) and not _NUMERAL.match(source):
        return "word", source.upper()
    if _NUMBER.match(source):
        return "number", source.upper()
    if source.startswith("`") and _QUOTED.match(source):
        return "name", source[1:-1].replace("``", "`")
    return "symbol", source


def _unescape(source: str, position: int, error: type[StatementError]) -> str:
    quote = source[0]
    if len(source) < 2 or source[-1] != quote:
        what = "A string is not closed."
        raise error(what, "Close its quote.", position=position)
    return _ESCAPE.sub(lambda match: _decode_escape(match, quote), source[1:-1])


def _decode_escape(match: re.Match[str], quote: str) -> str:
    code = match.group(1)
    if code is None:
        return quote if match.group(0) == quote * 2 else match.group(0)
    if code[0] in "uU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if len(code) == 3:
        return chr(int(code, 8))
    return f"\\{code}" if code in {"%", "_"} else _ESCAPES.get(code, code)
